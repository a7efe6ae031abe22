//! Opcodes of the commands that the controller supports.

/// Opcodes of the admin queue (NVM Express Base Specification 2.0, section 5).
pub mod admin {
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNCHRONOUS_EVENT_REQUEST: u8 = 0x0c;
    pub const KEEP_ALIVE: u8 = 0x18;

    // Of controllers whose queues lie in memory.
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;

    pub const OF_QUEUES: [u8; 4] =
        [DELETE_SUBMISSION_QUEUE, CREATE_SUBMISSION_QUEUE, DELETE_COMPLETION_QUEUE, CREATE_COMPLETION_QUEUE];

    /// All that every transport has.
    pub const ALL: [u8; 7] =
        [GET_LOG_PAGE, IDENTIFY, ABORT, SET_FEATURES, GET_FEATURES, ASYNCHRONOUS_EVENT_REQUEST, KEEP_ALIVE];
}

/// Opcodes of I/O queues (NVM Command Set Specification 1.0, section 3.2).
pub mod io {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    pub const VERIFY: u8 = 0x0c;
    pub const COPY: u8 = 0x19;

    pub const ALL: [u8; 8] = [FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES, DATASET_MANAGEMENT, VERIFY, COPY];
    /// Commands whose data are a list of ranges.
    pub const OF_RANGES: [u8; 2] = [DATASET_MANAGEMENT, COPY];
    pub const CHANGE_CONTENT: [u8; 6] =
        [WRITE, WRITE_ZEROES, DATASET_MANAGEMENT, COPY, ZONE_MANAGEMENT_SEND, ZONE_APPEND];

    // Zoned Namespace Command Set Specification 1.1, section 3.4.
    pub const ZONE_MANAGEMENT_SEND: u8 = 0x79;
    pub const ZONE_MANAGEMENT_RECEIVE: u8 = 0x7a;
    pub const ZONE_APPEND: u8 = 0x7d;

    /// Commands of a zoned namespace alone.
    pub const ZONED: [u8; 3] = [ZONE_MANAGEMENT_SEND, ZONE_MANAGEMENT_RECEIVE, ZONE_APPEND];
}
