//! Plain models of the policies that keep what was written again while a scan passes: vectors that
//! are searched, the oldest page in front.

use super::Model;

/// SIEVE: pages and whether they are marked; the page at which the hand is.
#[derive(Default)]
pub struct Sieve {
    pages: Vec<(u32, bool)>,
    hand: Option<u32>,
    pub capacity: usize,
}

impl Sieve {
    fn remove(&mut self, page: u32) {
        let Some(at) = self.pages.iter().position(|held| held.0 == page) else {
            return;
        };
        self.pages.remove(at);
        if self.hand == Some(page) {
            self.hand = self.pages.get(at).map(|held| held.0);
        }
    }

    fn evict(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let hand = self.pages.iter().position(|held| Some(held.0) == self.hand);
        let mut round = self.pages.clone();
        round.rotate_left(hand.unwrap_or(0));
        let able = |held: &&(u32, bool)| ready(held.0);
        let unmarked = round.iter().filter(able).find(|held| !held.1);
        let Some(&(victim, marked)) = unmarked.or_else(|| round.iter().find(able)) else {
            return Vec::new();
        };
        // The hand goes up to the victim, or all the way round, or to a page that is not ready.
        let way = round.iter().take_while(|held| marked || held.0 != victim);
        let stop = way.clone().find(|held| !ready(held.0));
        let passed: Vec<u32> = way.take_while(able).map(|held| held.0).collect();
        for held in &mut self.pages {
            held.1 &= !passed.contains(&held.0);
        }
        self.hand = Some(stop.map_or(victim, |held| held.0));
        self.remove(victim);
        vec![victim]
    }
}

impl Model for Sieve {
    fn write(&mut self, page: u32) -> Vec<u32> {
        if let Some(held) = self.pages.iter_mut().find(|held| held.0 == page) {
            held.1 = true;
            return Vec::new();
        }
        let mut left = Vec::new();
        if self.pages.len() == self.capacity {
            left = self.evict(&|_| true);
        }
        self.pages.push((page, false));
        left
    }

    fn discard(&mut self, page: u32) {
        self.remove(page);
    }

    fn destage(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        self.evict(ready)
    }

    fn drain(&mut self) -> Vec<u32> {
        self.hand = None;
        self.pages.drain(..).map(|held| held.0).collect()
    }
}

/// S3-FIFO: pages and their writes since they came, in the small and in the main queue.
#[derive(Default)]
pub struct S3Fifo {
    small: Vec<(u32, u32)>,
    main: Vec<(u32, u32)>,
    ghosts: Vec<u32>,
    pub capacity: usize,
}

impl S3Fifo {
    fn evict_small(&mut self, ready: &dyn Fn(u32) -> bool) -> Option<u32> {
        while let Some(at) = self.small.iter().position(|held| ready(held.0)) {
            let (page, writes) = self.small.remove(at);
            if writes > 1 {
                self.main.push((page, 0));
                continue;
            }
            self.ghosts.push(page);
            let most = self.capacity * 9 / 10;
            let forgotten = self.ghosts.len().saturating_sub(most);
            self.ghosts.drain(..forgotten);
            return Some(page);
        }
        None
    }

    fn evict_main(&mut self, ready: &dyn Fn(u32) -> bool) -> Option<u32> {
        while let Some(at) = self.main.iter().position(|held| ready(held.0)) {
            let (page, writes) = self.main.remove(at);
            if writes == 0 {
                return Some(page);
            }
            self.main.push((page, writes - 1));
        }
        None
    }

    fn evict(&mut self, ready: &dyn Fn(u32) -> bool) -> Option<u32> {
        if self.small.len() >= self.capacity / 10 {
            self.evict_small(ready).or_else(|| self.evict_main(ready))
        } else {
            let victim = self.evict_main(ready).or_else(|| self.evict_small(ready));
            // The small queue may only have moved its pages on.
            victim.or_else(|| self.evict_main(ready))
        }
    }
}

impl Model for S3Fifo {
    fn write(&mut self, page: u32) -> Vec<u32> {
        let mut held = self.small.iter_mut().chain(&mut self.main);
        if let Some(held) = held.find(|held| held.0 == page) {
            held.1 = (held.1 + 1).min(3);
            return Vec::new();
        }
        let remembered = self.ghosts.contains(&page);
        self.ghosts.retain(|&ghost| ghost != page);
        let mut left = Vec::new();
        if self.small.len() + self.main.len() == self.capacity {
            left.extend(self.evict(&|_| true));
        }
        let queue = if remembered { &mut self.main } else { &mut self.small };
        queue.push((page, 0));
        left
    }

    fn discard(&mut self, page: u32) {
        for queue in [&mut self.small, &mut self.main] {
            queue.retain(|held| held.0 != page);
        }
    }

    fn destage(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        self.evict(ready).into_iter().collect()
    }
}

/// ARC, in the names of the paper: `c` pages, the lists T1 and T2, the ghosts B1 and B2, the target p.
#[derive(Default)]
pub struct Arc {
    pub c: usize,
    t: [Vec<u32>; 2],
    b: [Vec<u32>; 2],
    p: f64,
}

impl Arc {
    fn replace(&mut self, in_b2: bool, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let t1 = self.t[0].len() as f64;
        let recent = t1 > self.p || in_b2 && t1 >= self.p;
        let first = usize::from(!recent);
        for list in [first, 1 - first] {
            if let Some(at) = self.t[list].iter().position(|&page| ready(page)) {
                let page = self.t[list].remove(at);
                self.b[list].push(page);
                return vec![page];
            }
        }
        Vec::new()
    }

    fn replace_if_full(&mut self, in_b2: bool) -> Vec<u32> {
        if self.t[0].len() + self.t[1].len() < self.c {
            return Vec::new();
        }
        self.replace(in_b2, &|_| true)
    }
}

impl Model for Arc {
    fn write(&mut self, page: u32) -> Vec<u32> {
        let is_in = [&self.t[0], &self.t[1], &self.b[0], &self.b[1]].map(|list| list.contains(&page));
        let [b1, b2] = [self.b[0].len() as f64, self.b[1].len() as f64];
        let mut left = Vec::new();
        if is_in[2] {
            self.p = (self.c as f64).min(self.p + if b1 >= b2 { 1.0 } else { b2 / b1 });
            left = self.replace_if_full(false);
        } else if is_in[3] {
            self.p = 0_f64.max(self.p - if b2 >= b1 { 1.0 } else { b1 / b2 });
            left = self.replace_if_full(true);
        } else if !is_in[0] && !is_in[1] {
            let [l1, l2] = [0, 1].map(|list: usize| self.t[list].len() + self.b[list].len());
            if self.t[0].len() == self.c {
                left.push(self.t[0].remove(0));
            } else if l1 == self.c {
                self.b[0].remove(0);
            } else if l1 + l2 == 2 * self.c {
                self.b[1].remove(0);
            }
            left.extend(self.replace_if_full(false));
            self.t[0].push(page);
            return left;
        }
        for list in self.t.iter_mut().chain(&mut self.b) {
            list.retain(|&held| held != page);
        }
        self.t[1].push(page);
        left
    }

    fn discard(&mut self, page: u32) {
        for list in &mut self.t {
            list.retain(|&held| held != page);
        }
    }

    fn destage(&mut self, ready: &dyn Fn(u32) -> bool) -> Vec<u32> {
        self.replace(false, ready)
    }
}
