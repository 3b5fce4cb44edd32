//! What one piece of work has seen of the store, and whether the disk has all of it.
//!
//! The disk may refuse a write at any moment, also between a read and the answer that speaks of it,
//! and afterwards nothing in memory tells that the write was ever there. So what is seen is noted
//! while it is seen, under the store's lock, and judged when the work is done.

use std::cell::RefCell;
use std::pin::Pin;

use tokio::sync::watch;

use super::commit_log::{Lost, Progress, Seen};

tokio::task_local! {
    static WITNESS: RefCell<Witness>;
}

#[derive(Debug, Default)]
struct Witness {
    /// The newest state it saw before the disk had it.
    seen: Option<Seen>,
    /// Something it saw was taken back meanwhile.
    lost: bool,
}

impl Witness {
    fn note(&mut self, progress: &Progress, revision: u64) {
        let Some(seen) = progress.ahead(revision) else {
            return;
        };
        if let Some(before) = self.seen.replace(seen) {
            // Revisions only grow until writes are taken back, which is when the older is judged.
            self.lost |= progress.verdict(before) == Some(Err(Lost));
        }
    }
}

/// Notes that whoever runs now sees the store at `revision`. Does nothing where nobody will ask.
pub(super) fn note(progress: &Progress, revision: u64) {
    // Only work within `settled` has a witness.
    let _ = WITNESS.try_with(|witness| witness.borrow_mut().note(progress, revision));
}

/// Does the work, and waits until the disk has everything it saw. The work stays where it is: a
/// future that is handed on by value is copied, and a request's has many kilobytes.
pub(super) async fn settled<W: Future>(
    mut progress: watch::Receiver<Progress>,
    work: Pin<&mut W>,
) -> Result<W::Output, Lost> {
    let witnessed = async {
        let done = work.await;
        (done, WITNESS.with(RefCell::take))
    };
    let (done, witness) = WITNESS.scope(RefCell::default(), witnessed).await;
    if witness.lost {
        return Err(Lost);
    }
    if let Some(seen) = witness.seen {
        let judged = progress.wait_for(|progress| progress.verdict(seen).is_some());
        let progress = judged.await.map_err(|_| Lost)?;
        progress.verdict(seen).unwrap_or(Err(Lost))?;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    /// The disk is at 5, memory at 7: two writes are on their way.
    fn behind() -> (watch::Sender<Progress>, watch::Receiver<Progress>) {
        watch::channel(Progress::at(5))
    }

    fn look(progress: &watch::Receiver<Progress>, revision: u64) {
        note(&progress.borrow(), revision);
    }

    #[tokio::test]
    async fn a_write_that_was_taken_back_before_anybody_waited_is_lost() {
        let (disk, progress) = behind();
        let work = async {
            look(&progress, 6);
            disk.send_modify(|progress| progress.set_back(5));
        };
        assert_eq!(settled(progress.clone(), pin!(work)).await, Err(Lost));
    }

    #[tokio::test]
    async fn a_later_look_does_not_hide_what_was_lost() {
        let (disk, progress) = behind();
        let work = async {
            look(&progress, 7);
            disk.send_modify(|progress| progress.set_back(5));
            look(&progress, 6);
            disk.send_modify(|progress| progress.advance(6));
        };
        assert_eq!(settled(progress.clone(), pin!(work)).await, Err(Lost));
    }

    #[tokio::test]
    async fn what_was_not_among_the_writes_that_were_taken_back_stands() {
        let (disk, progress) = behind();
        let work = async {
            look(&progress, 6);
            disk.send_modify(|progress| progress.advance(6));
            disk.send_modify(|progress| progress.set_back(6));
        };
        assert_eq!(settled(progress.clone(), pin!(work)).await, Ok(()));
    }

    #[tokio::test]
    async fn work_that_saw_only_what_is_on_disk_waits_for_nothing() {
        let (disk, progress) = behind();
        let work = async {
            look(&progress, 5);
            disk.send_modify(|progress| progress.set_back(5));
        };
        assert_eq!(settled(progress.clone(), pin!(work)).await, Ok(()));
    }

    #[tokio::test]
    async fn an_answer_waits_for_the_disk() {
        let (disk, progress) = behind();
        let answer = tokio::spawn(async move {
            let work = pin!(async { look(&progress, 6) });
            settled(progress.clone(), work).await
        });
        tokio::task::yield_now().await;
        assert!(!answer.is_finished());
        disk.send_modify(|progress| progress.advance(6));
        assert_eq!(answer.await.expect("it ends"), Ok(()));
    }
}
