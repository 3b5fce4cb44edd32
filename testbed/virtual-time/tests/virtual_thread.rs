//! What a thread sees with and without a guard, through `std` as any program would.
#![cfg(target_os = "linux")]
// What std reads from the machine is what is tested here.
#![allow(clippy::disallowed_methods)]

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aplomb_virtual_time::install;

const EPOCH: Duration = Duration::from_secs(1_767_225_600);

fn on_new_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(run).join().expect("the thread does not panic")
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

fn hash_with_seed(seed: u64) -> u64 {
    on_new_thread(move || {
        let _guard = install(seed, EPOCH, Box::new(|| Duration::ZERO));
        RandomState::new().hash_one("key")
    })
}

#[test]
fn hash_keys_are_a_function_of_the_seed() {
    assert_eq!(hash_with_seed(7), hash_with_seed(7));
    assert_ne!(hash_with_seed(7), hash_with_seed(8));
}

#[test]
fn both_clocks_follow_the_virtual_one() {
    on_new_thread(|| {
        let elapsed = Rc::new(Cell::new(Duration::ZERO));
        let source = Rc::clone(&elapsed);
        let _guard = install(1, EPOCH, Box::new(move || source.get()));
        let started = Instant::now();
        assert_eq!(wall(), EPOCH);
        elapsed.set(Duration::from_millis(3_600_500));
        assert_eq!(wall(), EPOCH + Duration::from_millis(3_600_500));
        assert_eq!(started.elapsed(), Duration::from_millis(3_600_500));
    });
}

#[test]
fn time_is_real_again_after_the_guard() {
    on_new_thread(|| {
        let before = wall();
        drop(install(1, EPOCH, Box::new(|| Duration::ZERO)));
        assert!(wall() >= before, "the guard is gone, so the wall clock is the system's");
    });
}

#[test]
fn other_threads_are_not_touched() {
    let real = on_new_thread(|| {
        let _guard = install(1, Duration::ZERO, Box::new(|| Duration::ZERO));
        on_new_thread(wall)
    });
    assert!(real > EPOCH);
}

#[test]
fn a_source_may_read_the_real_clock() {
    on_new_thread(|| {
        let started = Instant::now();
        let _guard = install(1, EPOCH, Box::new(move || started.elapsed()));
        assert!(
            wall() >= EPOCH,
            "the source's own reading must not come back to the source"
        );
    });
}

#[test]
fn entropy_is_drawn_from_the_seed_and_bounded_like_libc() {
    let draw = |seed| {
        on_new_thread(move || {
            let _guard = install(seed, EPOCH, Box::new(|| Duration::ZERO));
            fill(13)
        })
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
    assert_ne!(fill(32), fill(32), "without a guard it is the system's");
}

#[allow(unsafe_code)]
fn fill(length: usize) -> Vec<u8> {
    let mut bytes = vec![0_u8; length];
    // SAFETY: the pointer and length are those of one live, writable allocation.
    assert_eq!(unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), length) }, 0);
    let mut too_many = [0_u8; 257];
    // SAFETY: as above.
    assert_eq!(unsafe { libc::getentropy(too_many.as_mut_ptr().cast(), 257) }, -1);
    bytes
}
