//! The three libc functions, defined here and therefore preferred by the linker over libc's own.
//!
//! Each asks [`with_active`] first and falls back to the raw system call, never to libc: libc's
//! function of the same name is the one that is hidden. Nothing here may allocate or panic.

use std::time::Duration;

use libc::{c_int, c_uint, c_void, clockid_t, size_t, ssize_t, timespec};

use crate::{Virtual, with_active};

/// `getentropy` refuses more than this at once.
const GETENTROPY_MAX: usize = 256;

/// References the three definitions, so that no linker drops the object file they are in.
pub(crate) fn keep_linked() {
    let clock: unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int = clock_gettime;
    let random: unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> ssize_t = getrandom;
    let entropy: unsafe extern "C" fn(*mut c_void, size_t) -> c_int = getentropy;
    std::hint::black_box((clock, random, entropy));
}

/// Which virtual clock stands for a libc clock; CPU-time clocks stay real.
fn virtual_clock(clock: clockid_t) -> Option<fn(&Virtual) -> Duration> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(Virtual::realtime),
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_BOOTTIME => {
            Some(Virtual::monotonic)
        }
        _ => None,
    }
}

/// libc's `clock_gettime`.
///
/// # Safety
/// As libc's: `out` is null or points to a `timespec` this call may write.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, out: *mut timespec) -> c_int {
    if !out.is_null()
        && let Some(read) = virtual_clock(clock)
        && let Some(time) = with_active(|source| read(source))
    {
        let seconds = libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
        let time = timespec {
            tv_sec: seconds,
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: `out` is not null, and the caller vouches that it may be written.
        unsafe { out.write(time) };
        return 0;
    }
    // SAFETY: the arguments are the caller's own, passed to the call they were meant for; the
    // kernel checks the pointer. The system call returns 0 or -1, which any `c_int` holds.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, out) as c_int }
}

/// libc's `getrandom`.
///
/// # Safety
/// As libc's: `buffer` points to `length` bytes this call may write.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    // SAFETY: the caller vouches for `buffer` and `length`.
    if unsafe { fill_virtual(buffer, length) } {
        return length.try_into().unwrap_or(ssize_t::MAX);
    }
    // SAFETY: the arguments are the caller's own, passed to the call they were meant for.
    unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as ssize_t }
}

/// libc's `getentropy`.
///
/// # Safety
/// As libc's: `buffer` points to `length` bytes this call may write.
#[unsafe(no_mangle)]
unsafe extern "C" fn getentropy(buffer: *mut c_void, length: size_t) -> c_int {
    if length > GETENTROPY_MAX {
        // SAFETY: libc gives each thread its own errno; the pointer is always valid.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    // SAFETY: the caller vouches for `buffer` and `length`.
    if unsafe { fill_virtual(buffer, length) } {
        return 0;
    }
    // SAFETY: as above. The kernel never cuts short a request of up to 256 bytes.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, 0) };
    if usize::try_from(got) == Ok(length) { 0 } else { -1 }
}

/// Fills `buffer` from this thread's virtual source, if it has one.
///
/// # Safety
/// `buffer` points to `length` bytes this call may write.
unsafe fn fill_virtual(buffer: *mut c_void, length: size_t) -> bool {
    if buffer.is_null() || length == 0 {
        return false;
    }
    with_active(|source| {
        // SAFETY: not null; the caller vouches for `length` writable bytes that nobody else
        // touches during the call. They may be uninitialised, so they are zeroed before a slice
        // of them exists.
        let bytes = unsafe {
            buffer.write_bytes(0, length);
            std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length)
        };
        source.fill(bytes);
    })
    .is_some()
}
