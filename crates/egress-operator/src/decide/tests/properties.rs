//! Properties for arbitrary input: it converges when the provider works, nothing is written while
//! that is forbidden, and equal input gives equal plans. The model itself checks that two nodes are
//! never labeled and that the holder never loses its label.

use aplomb_api::DurationString;
use aplomb_api::egress::{HealthSignal, PinSpec};
use proptest::prelude::*;

use super::model::{Model, SECOND, node};
use super::provider::Mood;
use crate::decide::{Step, decide};
use crate::egress::{CandidateNode, LabelState, NodeProbeResult, NodeReady, ProviderTrouble};

fn labels() -> impl Strategy<Value = LabelState> {
    prop_oneof![
        3 => Just(LabelState::None),
        1 => Just(LabelState::Some),
        2 => Just(LabelState::All),
    ]
}

fn any_node(name: &'static str, server: i64) -> impl Strategy<Value = CandidateNode> {
    let ready = prop_oneof![
        4 => Just(NodeReady::True), 1 => Just(NodeReady::False), 1 => Just(NodeReady::Unknown)
    ];
    let probe = proptest::option::of((0u32..3, any::<bool>()));
    let flags = proptest::collection::vec(proptest::bool::weighted(0.2), 5);
    (labels(), proptest::option::of(labels()), ready, probe, flags).prop_map(
        move |(labels, cilium, ready, probe, flags)| CandidateNode {
            labels,
            cilium,
            ready,
            candidate: !flags[0],
            prepared: !flags[1],
            cordoned: flags[2],
            terminating: flags[3],
            server: (!flags[4]).then_some(server),
            probe_result: probe.map(|(failures, disputed)| NodeProbeResult { failures, disputed }),
            ..node(name, server)
        },
    )
}

fn any_mood() -> impl Strategy<Value = Mood> {
    let trouble = prop_oneof![
        Just(ProviderTrouble::Throttled),
        Just(ProviderTrouble::Locked),
        Just(ProviderTrouble::Unreachable("down".to_owned())),
        Just(ProviderTrouble::Refused("service_error".to_owned())),
        Just(ProviderTrouble::Unauthorized),
    ];
    prop_oneof![
        2 => Just(Mood::Healthy),
        1 => Just(Mood::LosesReplies),
        2 => trouble.clone().prop_map(Mood::Failing),
        2 => trouble.prop_map(Mood::WritesFail),
    ]
}

/// An event before things are left alone.
#[derive(Clone, Debug)]
enum Turn {
    Nodes(Vec<CandidateNode>),
    Mood(Mood),
    Holder(Option<i64>),
    Restart,
    Fails(u32),
    Pass(u64),
}

fn any_nodes() -> impl Strategy<Value = Vec<CandidateNode>> {
    let all = (any_node("a", 1), any_node("b", 2), any_node("c", 3));
    let all = all.prop_map(|(a, b, c)| vec![a, b, c]);
    (all, 0usize..=3).prop_map(|(mut nodes, left)| {
        nodes.truncate(left);
        nodes
    })
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        3 => any_nodes().prop_map(Turn::Nodes),
        2 => any_mood().prop_map(Turn::Mood),
        1 => proptest::option::of(0i64..5).prop_map(Turn::Holder),
        1 => Just(Turn::Restart),
        1 => (0u32..4).prop_map(Turn::Fails),
        4 => (0u64..400).prop_map(Turn::Pass),
    ]
}

fn any_model() -> impl Strategy<Value = Model> {
    let spec = (
        any::<bool>(),
        any::<bool>(),
        proptest::option::of("[abz]"),
        any::<bool>(),
    );
    (any_nodes(), spec, 0u64..2, 0u64..50).prop_map(|(nodes, spec, term, latency)| {
        let (probes, quick, pin, survive) = spec;
        let mut model = Model::new_unsettled(0);
        model.nodes = nodes;
        model.term = term;
        model.latency = std::time::Duration::from_millis(latency);
        model.spec.graces.survive_restart = survive;
        model.spec.pin = pin.map(|node| PinSpec { node, until: None });
        if probes {
            model.spec.health.signal = HealthSignal::Probe;
        }
        if quick {
            model.spec.graces.unhealthy = Some(DurationString::default());
        }
        model
    })
}

fn apply_turn(model: &mut Model, turn: Turn) {
    match turn {
        Turn::Nodes(nodes) => {
            // A new set of nodes keeps the present labels: only steps and time change those.
            let before = std::mem::replace(&mut model.nodes, nodes);
            for node in &mut model.nodes {
                let was = before.iter().find(|was| was.name == node.name);
                node.labels = was.map_or(LabelState::None, |was| was.labels);
            }
        }
        Turn::Mood(mood) => model.provider.mood = mood,
        Turn::Holder(server) => model.provider.server = server,
        Turn::Restart => model.restart(),
        Turn::Fails(count) => model.provider.failing = count,
        Turn::Pass(seconds) => {
            model.advance(u32::try_from(seconds).expect("few") * SECOND);
        }
    }
}

fn steps_at_rest(model: &Model) -> Vec<Step> {
    let plan = decide(&model.observed());
    plan.step.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_world_comes_to_rest_when_the_provider_is_well(
        mut model in any_model(),
        turns in proptest::collection::vec(any_turn(), 0..12),
    ) {
        for one in turns {
            apply_turn(&mut model, one);
        }
        model.provider.mood = Mood::Healthy;
        model.provider.failing = 0;
        model.advance(2 * 3_600 * SECOND);
        let settled = model.clone();
        model.log.clear();
        model.advance(1_800 * SECOND);
        prop_assert_eq!(model.step_log(), Vec::<String>::new());
        prop_assert_eq!(&model.status, &settled.status);
        // With no electable node, labels are left as they are.
        if model.available_reason() == "True Serving" && model.status.candidates.ready > 0 {
            let active = model.status.active_node.clone().expect("a gateway");
            prop_assert_eq!(model.labeled_nodes(), [active.as_str()]);
            prop_assert_eq!(model.node(&active).server, model.provider.server);
        }
    }

    #[test]
    fn nothing_is_written_while_held(
        mut model in any_model(),
        turns in proptest::collection::vec(any_turn(), 0..12),
    ) {
        model.hold = Some("true".to_owned());
        for one in turns {
            apply_turn(&mut model, one);
        }
        model.advance(600 * SECOND);
        prop_assert_eq!(model.step_log(), Vec::<String>::new());
    }

    #[test]
    fn nothing_is_done_in_a_grace(mut model in any_model(), mood in any_mood()) {
        model.provider.mood = mood;
        model.run();
        model.log.clear();
        if ["False GatewayUnhealthy", "False GatewayUnprepared"].contains(&model.available_reason().as_str()) {
            model.advance(80 * SECOND);
            if model.status.suspects.iter().all(|s| s.since.0 > model.now() - 85 * SECOND) {
                prop_assert_eq!(model.step_log(), Vec::<String>::new());
            }
        }
    }

    #[test]
    fn the_same_world_always_has_the_same_plan(
        mut model in any_model(),
        turns in proptest::collection::vec(any_turn(), 0..6),
    ) {
        for one in turns {
            apply_turn(&mut model, one);
        }
        let world = model.observed();
        prop_assert_eq!(format!("{:?}", decide(&world)), format!("{:?}", decide(&world)));
        prop_assert!(steps_at_rest(&model).len() <= 1);
    }
}
