//! Status values of completions (NVM Express Base Specification 2.0, section 3.3.3.2.1; NVM Command
//! Set Specification 1.0, section 1.4; NVMe over Fabrics 1.1, figure 34).

use crate::command::{Op, Status as Ended};
use crate::zones::ZoneError;

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

pub const SUCCESS: Status = Status(0);
/// The controller does not know the command.
pub const INVALID_OPCODE: Status = generic(0x01);
/// A field has a value that is not allowed.
pub const INVALID_FIELD: Status = generic(0x02);
/// Another command of the queue has that identifier.
pub const ID_CONFLICT: Status = generic(0x03);
/// Data could not be moved from or to the host's memory.
pub const DATA_TRANSFER_ERROR: Status = generic(0x04);
/// The drive lost its power; another try may succeed.
pub const POWER_LOST: Status = Status(0x05);
/// The backing file failed at something that is neither reading nor writing.
pub const INTERNAL_ERROR: Status = Status(0x06);
/// Aborted, because the host asked for it.
pub const ABORT_REQUESTED: Status = generic(0x07);
pub const INVALID_NAMESPACE: Status = generic(0x0b);
/// The command does not belong here now.
pub const SEQUENCE_ERROR: Status = generic(0x0c);
/// The data pointer is too short or too long.
pub const SGL_LENGTH_INVALID: Status = generic(0x0f);
/// The data pointer is of a form that this transport does not have.
pub const SGL_TYPE_INVALID: Status = generic(0x11);
/// A physical region page begins where it must not.
pub const PAGE_OFFSET_INVALID: Status = generic(0x13);
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
pub const COMPLETION_QUEUE_INVALID: Status = specific(0x00);
/// No such queue, or there is one of that number already.
pub const QUEUE_IDENTIFIER_INVALID: Status = specific(0x01);
/// A queue cannot have this number of entries.
pub const QUEUE_SIZE_INVALID: Status = specific(0x02);
/// More asynchronous event requests than the controller holds.
pub const TOO_MANY_EVENT_REQUESTS: Status = specific(0x05);
pub const INTERRUPT_VECTOR_INVALID: Status = specific(0x08);
pub const INVALID_LOG_PAGE: Status = specific(0x09);
/// A completion queue that submission queues use cannot be deleted.
pub const QUEUE_DELETION_INVALID: Status = specific(0x0c);
/// The feature cannot be saved.
pub const FEATURE_NOT_SAVEABLE: Status = specific(0x0d);
/// Such command sets are not supported together.
pub const COMMAND_SETS_REJECTED: Status = specific(0x2b);
/// The format of Connect's data is not known.
pub const CONNECT_FORMAT: Status = specific(0x80);
/// The controller, or its queue, is in use.
pub const CONNECT_BUSY: Status = specific(0x81);
/// A parameter of Connect is not allowed; the result says which.
pub const CONNECT_PARAMETER: Status = specific(0x82);
/// The host may not use the subsystem.
pub const CONNECT_HOST: Status = specific(0x84);
/// A Copy has more ranges or blocks than its limits allow.
pub const COMMAND_SIZE_LIMIT_EXCEEDED: Status = specific(0x83);
/// Flash or the backing file could not be written.
pub const WRITE_FAULT: Status = Status((2 << 8) | 0x80);
/// Flash or the backing file could not be read.
pub const READ_ERROR: Status = Status((2 << 8) | 0x81);
pub const COMPARE_FAILURE: Status = Status((2 << 8) | 0x85 | DO_NOT_RETRY);

/// How a command ended that the zones refused: from Zone Boundary Error to Invalid Zone State Transition the status values
/// follow one another as the errors do.
pub fn of_zone(error: ZoneError) -> Status {
    if error == ZoneError::NotAZone { INVALID_FIELD } else { specific(0xb8 + error as u16) }
}

/// How a command ended whose request the drive answered so.
pub fn of_answer(ended: Ended, op: Op) -> Status {
    let failure = match op {
        Op::Read => READ_ERROR,
        Op::Write | Op::WriteZeroes => WRITE_FAULT,
        Op::Flush | Op::Trim | Op::Zone(..) => INTERNAL_ERROR,
    };
    match ended {
        Ended::Done => SUCCESS,
        Ended::OutOfRange => LBA_OUT_OF_RANGE,
        Ended::ReadOnly => WRITE_PROTECTED,
        Ended::NoSpace => CAPACITY_EXCEEDED,
        Ended::PowerLost => POWER_LOST,
        Ended::Aborted => ABORT_REQUESTED,
        Ended::Failed => failure,
        Ended::Media => Status(failure.0 | DO_NOT_RETRY),
        Ended::Zone(error) => of_zone(error),
    }
}
