//! The rollout of one deployment: which pod to start or stop next, and what its status says.
//!
//! Pure: it is told the time, and somebody else starts and stops what runs in the pods. New pods
//! come first; old ones are asked to stop when all new ones are ready.

use std::time::Duration;

use tokio::time::Instant;

/// What a deployment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    pub(super) generation: i64,
    pub(super) replicas: usize,
    /// Tells pod templates apart.
    pub(super) revision: String,
    /// How long a pod may take to stop.
    pub(super) grace: Duration,
    /// Whether pods of this template are started here.
    pub(super) own: bool,
    /// Whether the deployment's status says that the rollout is complete.
    pub(super) complete: bool,
}

/// A pod and what runs in it.
#[derive(Clone, Debug)]
struct Pod<P> {
    number: u64,
    revision: String,
    process: P,
    ready: Instant,
    /// When it will be gone.
    gone: Option<Instant>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step<P> {
    /// Start a pod of the present revision with this number.
    Start(u64),
    /// Stop what runs in the pod with this number.
    Stop(u64, P),
    /// Nothing until then, or until something changes.
    Wait(Option<Instant>),
}

/// What a deployment's status says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) replicas: usize,
    pub(super) updated: usize,
    pub(super) ready: usize,
}

/// The pods of a deployment.
#[derive(Clone, Debug)]
pub(super) struct Rollout<P> {
    pods: Vec<Pod<P>>,
    started: u64,
}

impl<P> Default for Rollout<P> {
    fn default() -> Self {
        Self {
            pods: Vec::new(),
            started: 0,
        }
    }
}

impl<P: Clone> Rollout<P> {
    /// Whether there is no pod, not even one that is stopping.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// What to do next. A deployment that is gone asks for nothing.
    pub(super) fn next(&mut self, desired: Option<&Desired>, now: Instant) -> Step<P> {
        self.pods.retain(|pod| pod.gone.is_none_or(|gone| now < gone));
        let replicas = desired.map_or(0, |it| it.replicas);
        let (current, old): (Vec<_>, Vec<_>) = self
            .pods
            .iter()
            .filter(|pod| pod.gone.is_none())
            .partition(|pod| desired.is_some_and(|it| pod.revision == it.revision));
        let own = desired.is_none_or(|it| it.own);
        if own && current.len() < replicas {
            return Step::Start(self.started + 1);
        }
        let done = match own {
            true => current.iter().all(|pod| pod.ready <= now),
            false => desired.is_some_and(|it| it.complete),
        };
        let surplus = current.get(replicas..).unwrap_or_default();
        let leaving = match done || replicas == 0 {
            true => surplus.iter().chain(&old).next(),
            false => surplus.first(),
        };
        match leaving {
            Some(pod) => Step::Stop(pod.number, pod.process.clone()),
            None => Step::Wait(self.next_change(now)),
        }
    }

    /// A pod was started; it is ready at a moment.
    pub(super) fn started(&mut self, revision: &str, process: P, ready: Instant) {
        self.started += 1;
        self.pods.push(Pod {
            number: self.started,
            revision: revision.to_owned(),
            process,
            ready,
            gone: None,
        });
    }

    /// A pod was asked to stop; it is gone at a moment.
    pub(super) fn stopping(&mut self, number: u64, gone: Instant) {
        let pod = self.pods.iter_mut().find(|pod| pod.number == number);
        if let Some(pod) = pod {
            pod.gone = Some(gone);
        }
    }

    /// What the status says. Pods that are stopping are in no count.
    pub(super) fn counts(&self, revision: &str, now: Instant) -> Counts {
        let live = || self.pods.iter().filter(|pod| pod.gone.is_none());
        Counts {
            replicas: live().count(),
            updated: live().filter(|pod| pod.revision == revision).count(),
            ready: live().filter(|pod| pod.ready <= now).count(),
        }
    }

    fn next_change(&self, now: Instant) -> Option<Instant> {
        let moments = self.pods.iter().flat_map(|pod| [Some(pod.ready), pod.gone]);
        moments.flatten().filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Duration = Duration::from_secs(1);
    const JOB: Duration = Duration::from_secs(90);

    fn desired(revision: &str, replicas: usize) -> Desired {
        Desired {
            generation: 1,
            replicas,
            revision: revision.to_owned(),
            grace: Duration::from_secs(600),
            own: true,
            complete: false,
        }
    }

    /// Does what is to be done at once; says what.
    fn run(rollout: &mut Rollout<u64>, desired: Option<&Desired>, now: Instant) -> Vec<String> {
        let mut done = Vec::new();
        loop {
            match rollout.next(desired, now) {
                Step::Start(pod) => {
                    let revision = &desired.expect("it asks for pods").revision;
                    rollout.started(revision, pod, now + READY);
                    done.push(format!("start {pod}"));
                }
                Step::Stop(pod, _) => {
                    rollout.stopping(pod, now + JOB);
                    done.push(format!("stop {pod}"));
                }
                Step::Wait(_) => return done,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_pods_are_ready_before_old_ones_are_asked_to_stop() {
        let (mut rollout, begin) = (Rollout::default(), Instant::now());
        let (old, new) = (desired("old", 2), desired("new", 2));
        assert_eq!(run(&mut rollout, Some(&old), begin), ["start 1", "start 2"]);
        let begin = begin + READY;
        assert_eq!(run(&mut rollout, Some(&new), begin), ["start 3", "start 4"]);
        assert_eq!(rollout.counts("new", begin).ready, 2);
        let ready = begin + READY;
        assert_eq!(rollout.next(Some(&new), begin), Step::Wait(Some(ready)));
        assert_eq!(run(&mut rollout, Some(&new), ready), ["stop 1", "stop 2"]);
        let counts = Counts {
            replicas: 2,
            updated: 2,
            ready: 2,
        };
        assert_eq!(rollout.counts("new", ready), counts);
        // They finish what they do.
        assert_eq!(rollout.next(Some(&new), ready), Step::Wait(Some(ready + JOB)));
        assert_eq!(rollout.next(Some(&new), ready + JOB), Step::Wait(None));
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_follow_and_a_deployment_that_is_gone_has_none() {
        let (mut rollout, now) = (Rollout::default(), Instant::now());
        run(&mut rollout, Some(&desired("a", 3)), now);
        assert_eq!(run(&mut rollout, Some(&desired("a", 1)), now), ["stop 2", "stop 3"]);
        assert_eq!(run(&mut rollout, Some(&desired("a", 0)), now), ["stop 1"]);
        run(&mut rollout, Some(&desired("a", 1)), now);
        assert_eq!(run(&mut rollout, None, now), ["stop 4"]);
        rollout.next(None, now + JOB);
        assert!(rollout.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn pods_of_another_server_replace_these_when_the_status_says_so() {
        let (mut rollout, now) = (Rollout::default(), Instant::now());
        run(&mut rollout, Some(&desired("here", 1)), now);
        let mut there = desired("there", 1);
        there.own = false;
        assert_eq!(run(&mut rollout, Some(&there), now), Vec::<String>::new());
        there.complete = true;
        assert_eq!(run(&mut rollout, Some(&there), now), ["stop 1"]);
    }
}
