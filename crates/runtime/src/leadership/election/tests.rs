//! The election against an adversary: pauses, lost and late messages, wrong wall clocks
//! and monotonic clocks that drift apart.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const STEP: Duration = Duration::from_millis(50);

/// The actions of the adversary, as data, so that a failure shrinks.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    /// Per replica: how fast its monotonic clock runs, and how wrong its wall clock is.
    clocks: Vec<(f64, i64)>,
    /// How likely a message is lost or late, and a replica pauses or gives the lease up.
    loss: f64,
    pause: f64,
    release: f64,
    steps: u32,
}

fn plans() -> impl Strategy<Value = Plan> {
    let clocks = prop::collection::vec((0.9..1.1_f64, -30_i64..30), 2..4);
    (any::<u64>(), clocks, 0.0..0.5_f64, 0.0..0.01_f64, 0.0..0.002_f64).prop_map(
        |(seed, clocks, loss, pause, release)| Plan {
            seed,
            clocks,
            loss,
            pause,
            release,
            steps: 3000,
        },
    )
}

#[derive(Clone, Debug)]
enum Request {
    Read,
    Write(LeaderElectionRecord, Option<ResourceVersion>),
}

#[derive(Clone, Debug)]
enum Answer {
    Lease(Option<(LeaderElectionRecord, ResourceVersion)>),
    Conflict,
}

/// A message in transit; it arrives even if its sender no longer waits for it.
#[derive(Debug)]
struct Message {
    from: usize,
    serial: u64,
    request: Request,
    arrives: Duration,
    answered: Duration,
}

#[derive(Debug)]
struct Replica {
    election: ElectionState,
    rate: f64,
    skew: i64,
    paused_until: Duration,
    /// The call it waits for, and until when by its own clock.
    waiting: Option<(u64, Duration)>,
    inbox: Vec<(u64, Duration, Answer)>,
}

impl Replica {
    fn local(&self, now: Duration) -> Duration {
        now.mul_f64(self.rate)
    }

    fn wall(&self, now: Duration) -> Timestamp {
        let now = SignedDuration::try_from(now).expect("a short run");
        Timestamp::UNIX_EPOCH + now + SignedDuration::from_secs(self.skew)
    }

    fn may_act(&self, now: Duration) -> bool {
        let held = self.election.held_until();
        held.is_some_and(|until| self.local(now) < until)
    }
}

struct Arena {
    rng: fastrand::Rng,
    plan: Plan,
    now: Duration,
    lease: Option<(LeaderElectionRecord, u64)>,
    version: u64,
    serial: u64,
    travelling: Vec<Message>,
    replicas: Vec<Replica>,
    config: LeaseConfig,
    terms: u32,
}

impl Arena {
    fn new(plan: Plan, config: LeaseConfig) -> Self {
        let replica = |(index, &(rate, skew)): (usize, &(f64, i64))| Replica {
            election: ElectionState::new(LeaseConfig {
                identity: format!("replica-{index}"),
                ..config.clone()
            }),
            rate,
            skew,
            paused_until: Duration::ZERO,
            waiting: None,
            inbox: Vec::new(),
        };
        Self {
            rng: fastrand::Rng::with_seed(plan.seed),
            replicas: plan.clocks.iter().enumerate().map(replica).collect(),
            plan,
            now: Duration::from_secs(60),
            lease: None,
            version: 0,
            serial: 0,
            travelling: Vec::new(),
            config,
            terms: 0,
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.rng.f64() < probability
    }

    /// Runs to the end, or to the moment at which two replicas may act.
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.plan.steps {
            self.now += STEP;
            self.deliver();
            for index in 0..self.replicas.len() {
                self.step(index);
            }
            let now = self.now;
            let acting = |(_, replica): &(usize, &Replica)| replica.may_act(now);
            let acting: Vec<usize> = self
                .replicas
                .iter()
                .enumerate()
                .filter(acting)
                .map(|(index, _)| index)
                .collect();
            if acting.len() > 1 {
                return Err(format!("{acting:?} may act at {now:?}"));
            }
        }
        Ok(())
    }

    fn deliver(&mut self) {
        let (arrived, travelling) = std::mem::take(&mut self.travelling)
            .into_iter()
            .partition(|message| message.arrives <= self.now);
        self.travelling = travelling;
        for message in arrived {
            let Message {
                from,
                serial,
                request,
                answered,
                ..
            } = message;
            let answer = self.serve(request);
            self.replicas[from].inbox.push((serial, answered, answer));
        }
    }

    fn serve(&mut self, request: Request) -> Answer {
        if let Request::Write(record, replaces) = request {
            let current = self
                .lease
                .as_ref()
                .map(|(_, version)| ResourceVersion::Number(*version));
            if current != replaces {
                return Answer::Conflict;
            }
            self.version += 1;
            self.lease = Some((record, self.version));
        }
        let lease = self.lease.clone();
        Answer::Lease(lease.map(|(record, version)| (record, ResourceVersion::Number(version))))
    }

    fn send(&mut self, from: usize, request: Request) {
        self.serial += 1;
        let late = |arena: &mut Self| {
            let slow = if arena.chance(arena.plan.loss) { 12_000 } else { 200 };
            Duration::from_millis(arena.rng.u64(0..slow))
        };
        let arrives = self.now + late(self);
        let answered = arrives + late(self);
        let replica = &mut self.replicas[from];
        let patience = replica.local(self.now) + self.config.request_timeout();
        replica.waiting = Some((self.serial, patience));
        if !self.chance(self.plan.loss / 2.0) {
            let serial = self.serial;
            self.travelling.push(Message {
                from,
                serial,
                request,
                arrives,
                answered,
            });
        }
    }

    fn step(&mut self, index: usize) {
        if self.replicas[index].paused_until > self.now {
            return;
        }
        if self.chance(self.plan.pause) {
            self.replicas[index].paused_until = self.now + Duration::from_millis(self.rng.u64(0..40_000));
            return;
        }
        if self.replicas[index].waiting.is_some() {
            return self.receive(index);
        }
        self.deliver_watch_event(index);
        let (now, wall) = (
            self.replicas[index].local(self.now),
            self.replicas[index].wall(self.now),
        );
        if self.replicas[index].may_act(self.now) && self.chance(self.plan.release) {
            if let Some((record, version)) = self.replicas[index].election.release(wall) {
                self.send(index, Request::Write(record, Some(version)));
            }
            return;
        }
        match self.replicas[index].election.next(now, wall) {
            ElectionStep::Read => self.send(index, Request::Read),
            ElectionStep::Claim { record, replaces } => self.send(index, Request::Write(record, replaces)),
            ElectionStep::Wait(_) => {}
        }
    }

    fn receive(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let Some((serial, patience)) = replica.waiting else {
            return;
        };
        let now = replica.local(self.now);
        let answer = replica
            .inbox
            .iter()
            .position(|(of, at, _)| *of == serial && *at <= self.now);
        if let Some(position) = answer {
            replica.waiting = None;
            let (_, _, answer) = replica.inbox.swap_remove(position);
            match answer {
                Answer::Lease(Some((record, version))) => {
                    let led = replica.election.held_until().is_some();
                    replica.election.check_rollback(&version, now);
                    replica.election.observe_record(record, version, now);
                    let leads = replica.election.held_until().is_some();
                    self.terms += u32::from(leads && !led);
                }
                Answer::Lease(None) => replica.election.observe_absence(now),
                Answer::Conflict => replica.election.record_claim_conflict(now),
            }
        } else if now >= patience {
            replica.waiting = None;
            replica.election.record_failure(now);
        }
    }

    /// A standby's watch delivers the lease, if it works.
    fn deliver_watch_event(&mut self, index: usize) {
        let works = self.chance(0.3);
        let replica = &mut self.replicas[index];
        if works
            && !replica.may_act(self.now)
            && let Some((record, version)) = &self.lease
        {
            let now = replica.local(self.now);
            replica
                .election
                .observe_record(record.clone(), ResourceVersion::Number(*version), now);
        }
    }
}

fn config() -> LeaseConfig {
    LeaseConfig::new("default", "demo", "")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn two_replicas_never_both_may_act(plan in plans()) {
        let mut arena = Arena::new(plan, config());
        prop_assert_eq!(arena.run(), Ok(()));
    }

    #[test]
    fn some_replica_leads_without_faults(plan in plans()) {
        let mut arena = Arena::new(plan, config());
        prop_assert_eq!(arena.run(), Ok(()));
        (arena.plan.loss, arena.plan.pause, arena.plan.release) = (0.0, 0.0, 0.0);
        // The longest pause, a late message, the duration of a slow clock, and one retry.
        arena.plan.steps = 20 * (40 + 24 + 17 + 3);
        prop_assert_eq!(arena.run(), Ok(()));
        let leads = |replica: &Replica| replica.may_act(arena.now);
        prop_assert!(arena.replicas.iter().any(leads));
    }
}

#[test]
fn missing_margin_gives_two_leaders() {
    let mut config = config();
    config.renew_deadline = config.lease_duration * 2;
    let plan = |seed| Plan {
        seed,
        clocks: vec![(1.0, 0), (1.0, 0)],
        loss: 0.2,
        pause: 0.01,
        release: 0.0,
        steps: 3000,
    };
    let found = (0..20).any(|seed| Arena::new(plan(seed), config.clone()).run().is_err());
    assert!(found, "the property above could not fail");
}

#[test]
fn simulation_has_many_terms() {
    let plan = Plan {
        seed: 7,
        clocks: vec![(0.95, -30), (1.05, 30)],
        loss: 0.2,
        pause: 0.005,
        release: 0.002,
        steps: 6000,
    };
    let mut arena = Arena::new(plan, config());
    arena.run().expect("one leader at a time");
    assert!(arena.terms > 3, "{} terms", arena.terms);
}

#[test]
fn after_a_restore_exactly_one_replica_leads() {
    for seed in 0..20 {
        let plan = Plan {
            seed,
            clocks: vec![(0.95, -30), (1.05, 30), (1.0, 0)],
            loss: 0.0,
            pause: 0.0,
            release: 0.01,
            steps: 600,
        };
        let mut arena = Arena::new(plan, config());
        arena.run().expect("one leader at a time");
        let backup = (arena.lease.clone(), arena.version);
        arena.run().expect("one leader at a time");
        (arena.lease, arena.version) = backup;
        // Three reads, the duration of a slow clock, and a few retries.
        arena.plan.release = 0.0;
        arena.plan.steps = 20 * (8 + 17 + 8);
        arena.run().expect("one leader at a time");
        let leads = |replica: &Replica| replica.may_act(arena.now);
        assert!(arena.replicas.iter().any(leads), "seed {seed}");
    }
}

fn held_by_another() -> LeaderElectionRecord {
    LeaderElectionRecord {
        holder: Some("other".to_owned()),
        duration: Duration::from_secs(15),
        transitions: 4,
        acquired: None,
        renewed: Some(Timestamp::UNIX_EPOCH),
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_lease_that_looks_long_expired_is_watched_for_its_duration() {
    let mut election = ElectionState::new(config());
    election.observe_record(held_by_another(), ResourceVersion::Number(3), at(100));
    let wall = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
    assert_ne!(election.next(at(100), wall), ElectionStep::Read);
    assert!(matches!(
        election.next(at(114), wall),
        ElectionStep::Wait(_) | ElectionStep::Read
    ));
    let ElectionStep::Claim { record, replaces } = election.next(at(115), wall) else {
        panic!("the record has been unchanged for its duration");
    };
    assert_eq!(replaces, Some(ResourceVersion::Number(3)));
    assert_eq!((record.transitions, record.acquired), (5, record.renewed));
}

#[test]
fn released_lease_is_claimed_immediately() {
    let mut election = ElectionState::new(config());
    election.observe_record(held_by_another(), ResourceVersion::Number(3), at(100));
    let mut released = held_by_another();
    released.holder = None;
    election.observe_record(released, ResourceVersion::Number(4), at(101));
    let next = election.next(at(101), Timestamp::UNIX_EPOCH);
    assert!(matches!(next, ElectionStep::Claim { .. }), "{next:?}");
}

#[test]
fn deleted_lease_does_not_shorten_the_hold_of_another_replica() {
    let mut election = ElectionState::new(config());
    election.observe_record(held_by_another(), ResourceVersion::Number(3), at(100));
    election.observe_absence(at(101));
    let claims = |election: &mut ElectionState, now| {
        matches!(election.next(now, Timestamp::UNIX_EPOCH), ElectionStep::Claim { .. })
    };
    assert!(!claims(&mut election, at(114)));
    assert!(claims(&mut election, at(115)));
}

#[test]
fn a_claim_whose_answer_was_lost_counts_from_when_it_was_sent() {
    let mut election = ElectionState::new(LeaseConfig::new("default", "demo", "me"));
    election.observe_absence(at(10));
    let ElectionStep::Claim { record, .. } = election.next(at(10), Timestamp::UNIX_EPOCH) else {
        panic!("the lease is not held");
    };
    election.record_failure(at(15));
    assert_eq!(election.held_until(), None);
    assert_eq!(election.next(at(17), Timestamp::UNIX_EPOCH), ElectionStep::Read);
    election.observe_record(record, ResourceVersion::Number(1), at(18));
    assert_eq!(election.held_until(), Some(at(20)));
}

#[test]
fn repeated_old_reads_are_accepted_after_a_full_duration() {
    let mut election = ElectionState::new(LeaseConfig::new("default", "demo", "me"));
    let claims = |election: &mut ElectionState, now| {
        matches!(election.next(now, Timestamp::UNIX_EPOCH), ElectionStep::Claim { .. })
    };
    let mut ours = held_by_another();
    ours.holder = Some("me".to_owned());
    election.observe_absence(at(90));
    assert!(claims(&mut election, at(90)));
    election.observe_record(held_by_another(), ResourceVersion::Number(9), at(100));
    election.record_failure(at(100));
    for now in [at(102), at(104), at(106)] {
        let event = election.observe_record(ours.clone(), ResourceVersion::Number(5), now);
        assert!(!event, "a watch may lag");
        assert_eq!(election.next(now, Timestamp::UNIX_EPOCH), ElectionStep::Read);
        let believed = election.check_rollback(&ResourceVersion::Number(5), now);
        assert_eq!(believed, now == at(106));
        let taken = election.observe_record(ours.clone(), ResourceVersion::Number(5), now);
        assert_eq!(taken, believed);
    }
    assert!(!claims(&mut election, at(120)), "another replica may still lead");
    assert!(claims(&mut election, at(121)));
}

#[test]
fn a_record_of_client_go_is_read_and_written_back_unchanged() {
    let theirs = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "demo", "namespace": "default", "labels": { "kept": "yes" } },
        "spec": {
            "acquireTime": "2026-01-01T00:00:00.000001Z",
            "holderIdentity": "host_6a9c",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 3,
            "renewTime": "2026-01-01T00:00:02.500000Z",
            "strategy": "OldestEmulationVersion",
        },
    });
    let mut lease: Lease = serde_json::from_value(theirs.clone()).expect("a Lease");
    let record = LeaderElectionRecord::from_lease(&lease);
    assert_eq!(record.holder.as_deref(), Some("host_6a9c"));
    assert_eq!(record.duration, Duration::from_secs(15));
    record.write_to(&mut lease);
    assert_eq!(serde_json::to_value(&lease).expect("JSON"), theirs);
}

#[test]
fn a_released_lease_has_no_holder() {
    let released = json!({
        "metadata": { "name": "demo" },
        "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 3 },
    });
    let lease: Lease = serde_json::from_value(released).expect("a Lease");
    assert_eq!(LeaderElectionRecord::from_lease(&lease).holder, None);
}
