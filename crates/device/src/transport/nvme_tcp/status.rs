//! Status values of completions (NVM Express Base Specification 2.0, section 3.3.3.2.1; NVM Command
//! Set Specification 1.0, section 1.4; NVMe over Fabrics 1.1, figure 34).

/// A status field without its phase bit: code, type from bit 8, do-not-retry in bit 14.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16);

const DO_NOT_RETRY: u16 = 1 << 14;

const fn generic(code: u16) -> Status {
    Status(code | DO_NOT_RETRY)
}

const fn specific(code: u16) -> Status {
    Status((1 << 8) | code | DO_NOT_RETRY)
}

/// As it was wanted.
pub const SUCCESS: Status = Status(0);
/// The controller does not know the command.
pub const INVALID_OPCODE: Status = generic(0x01);
/// A field has a value that is not allowed.
pub const INVALID_FIELD: Status = generic(0x02);
/// Another command of the queue has that identifier.
pub const ID_CONFLICT: Status = generic(0x03);
/// The drive lost its power; another try may succeed.
pub const POWER_LOST: Status = Status(0x05);
/// The backing file failed at something that is neither reading nor writing.
pub const INTERNAL_ERROR: Status = Status(0x06);
/// Aborted, because the host asked for it.
pub const ABORT_REQUESTED: Status = generic(0x07);
/// No such namespace.
pub const INVALID_NAMESPACE: Status = generic(0x0b);
/// The command does not belong here now.
pub const SEQUENCE_ERROR: Status = generic(0x0c);
/// The data pointer is too short or too long.
pub const SGL_LENGTH_INVALID: Status = generic(0x0f);
/// The data pointer is of a form that this transport does not have.
pub const SGL_TYPE_INVALID: Status = generic(0x11);
/// The data pointer does not lie within the capsule.
pub const SGL_OFFSET_INVALID: Status = generic(0x16);
/// The namespace cannot be written.
pub const WRITE_PROTECTED: Status = generic(0x20);
/// Data were damaged on the way; another try may succeed.
pub const TRANSIENT_TRANSPORT_ERROR: Status = Status(0x22);
/// The range does not lie within the namespace.
pub const LBA_OUT_OF_RANGE: Status = generic(0x80);
/// The backing file's disk is full.
pub const CAPACITY_EXCEEDED: Status = generic(0x81);
/// More asynchronous event requests than the controller holds.
pub const TOO_MANY_EVENT_REQUESTS: Status = specific(0x05);
/// No such log page.
pub const INVALID_LOG_PAGE: Status = specific(0x09);
/// The feature cannot be saved.
pub const FEATURE_NOT_SAVEABLE: Status = specific(0x0d);
/// The format of Connect's data is not known.
pub const CONNECT_FORMAT: Status = specific(0x80);
/// The controller, or its queue, is in use.
pub const CONNECT_BUSY: Status = specific(0x81);
/// A parameter of Connect is not allowed; the result says which.
pub const CONNECT_PARAMETER: Status = specific(0x82);
/// The host may not use the subsystem.
pub const CONNECT_HOST: Status = specific(0x84);
/// The backing file could not be written.
pub const WRITE_FAULT: Status = Status((2 << 8) | 0x80);
/// The backing file could not be read.
pub const READ_ERROR: Status = Status((2 << 8) | 0x81);
/// What is there differs.
pub const COMPARE_FAILURE: Status = Status((2 << 8) | 0x85 | DO_NOT_RETRY);
