//! The served drive through its public interface: what it keeps, answers, counts and survives.

mod backing_file;
mod certificates;
mod drive_group;
mod drives;
mod emulated_drive;
mod faults;
mod fuse_session;
mod host;
mod hostile;
mod hostile_clients;
mod kill;
mod memory_drive;
mod namespaces;
mod nbd_clients;
mod nbd_protocol;
mod nbd_tls;
mod nvme_tcp;
mod nvme_tcp_admin;
mod nvme_tcp_io;
mod nvme_tcp_units;
mod nvme_tcp_zones;
mod power;
mod power_in_flight;
mod scene;
mod served;
mod server;
mod socket_output;
mod socket_server;
mod vfio_user;
mod vfio_user_hostile;
mod zones;

/// The same with a change.
fn with<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}
