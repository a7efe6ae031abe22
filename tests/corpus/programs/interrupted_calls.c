#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
static void ring(int number) { (void)number; }
int main(void) {
    struct itimerval each = {{0, 2000}, {0, 2000}};
    struct sigaction action = {0};
    action.sa_handler = ring;
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &each, 0);
    for (int i = 0; i < 50; i++) pause();
    return 0;
}
