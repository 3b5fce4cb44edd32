//! Which rules each built-in kind has: a table from group and kind to [`KindBehavior`].

use super::behavior::KindBehavior;
use super::data::Entry;
use super::{
    addresses, admission, autoscaling, certificates, claims, classes, cluster, config, devices, endpoints, events,
    flow, health, ingress, leases, pods, policy, quota, rbac, registration, services, storage, webhooks, workloads,
};

/// The rules of a kind.
pub(super) fn behaviour_of(entry: &Entry) -> &'static KindBehavior {
    let kind = entry.kind.as_str();
    match entry.group.as_str() {
        "" => core(kind),
        "admissionregistration.k8s.io" => admission_of(kind),
        "apiregistration.k8s.io" => &registration::API_SERVICE,
        "apps" => apps(kind),
        "autoscaling" if entry.version == "v1" => &autoscaling::V1,
        "autoscaling" => &autoscaling::V2,
        "batch" if kind == "Job" => &workloads::job::JOB,
        "batch" => &workloads::cron::CRON_JOB,
        "certificates.k8s.io" => &certificates::SIGNING_REQUEST,
        "coordination.k8s.io" => &leases::LEASE,
        "discovery.k8s.io" => &endpoints::ENDPOINT_SLICE,
        "events.k8s.io" => &events::NEW,
        "flowcontrol.apiserver.k8s.io" if kind == "FlowSchema" => &flow::FLOW_SCHEMA,
        "flowcontrol.apiserver.k8s.io" => &flow::PRIORITY_LEVEL,
        "networking.k8s.io" => networking(kind),
        "node.k8s.io" => &classes::RUNTIME_CLASS,
        "policy" => &policy::POD_DISRUPTION_BUDGET,
        "rbac.authorization.k8s.io" => rbac_of(kind),
        "resource.k8s.io" => resource(kind),
        "scheduling.k8s.io" => &classes::PRIORITY_CLASS,
        "storage.k8s.io" => storage_of(kind),
        _ => &KindBehavior::PLAIN,
    }
}

fn core(kind: &str) -> &'static KindBehavior {
    match kind {
        "ComponentStatus" => &health::COMPONENT_STATUS,
        "ConfigMap" => &config::CONFIG_MAP,
        "Endpoints" => &endpoints::ENDPOINTS,
        "Event" => &events::CORE,
        "LimitRange" => &quota::LIMIT_RANGE,
        "Namespace" => &cluster::NAMESPACE,
        "Node" => &cluster::NODE,
        "PersistentVolumeClaim" => &claims::CLAIM,
        "PersistentVolume" => &storage::volumes::VOLUME,
        "Pod" => &pods::POD,
        "PodTemplate" => &workloads::controller::POD_TEMPLATE,
        "ReplicationController" => &workloads::controller::REPLICATION_CONTROLLER,
        "ResourceQuota" => &quota::RESOURCE_QUOTA,
        "Secret" => &config::SECRET,
        "Service" => &services::SERVICE,
        "ServiceAccount" => &config::SERVICE_ACCOUNT,
        _ => &KindBehavior::PLAIN,
    }
}

fn admission_of(kind: &str) -> &'static KindBehavior {
    match kind {
        "ValidatingAdmissionPolicy" => &admission::POLICY,
        "ValidatingAdmissionPolicyBinding" => &admission::BINDING,
        "MutatingAdmissionPolicy" => &admission::mutating::POLICY,
        "MutatingAdmissionPolicyBinding" => &admission::mutating::POLICY_BINDING,
        "MutatingWebhookConfiguration" => &webhooks::MUTATING,
        _ => &webhooks::VALIDATING,
    }
}

fn apps(kind: &str) -> &'static KindBehavior {
    match kind {
        "ControllerRevision" => &workloads::controller::CONTROLLER_REVISION,
        "DaemonSet" => &workloads::daemon::DAEMON_SET,
        "Deployment" => &workloads::DEPLOYMENT,
        "ReplicaSet" => &workloads::REPLICA_SET,
        "StatefulSet" => &workloads::stateful::STATEFUL_SET,
        _ => &KindBehavior::PLAIN,
    }
}

fn networking(kind: &str) -> &'static KindBehavior {
    match kind {
        "Ingress" => &ingress::INGRESS,
        "IngressClass" => &ingress::INGRESS_CLASS,
        "IPAddress" => &addresses::IP_ADDRESS,
        "ServiceCIDR" => &addresses::SERVICE_CIDR,
        "NetworkPolicy" => &policy::NETWORK_POLICY,
        _ => &KindBehavior::PLAIN,
    }
}

fn rbac_of(kind: &str) -> &'static KindBehavior {
    match kind {
        "Role" => &rbac::ROLE,
        "ClusterRole" => &rbac::CLUSTER_ROLE,
        "RoleBinding" => &rbac::ROLE_BINDING,
        _ => &rbac::CLUSTER_ROLE_BINDING,
    }
}

fn resource(kind: &str) -> &'static KindBehavior {
    match kind {
        "DeviceClass" => &devices::DEVICE_CLASS,
        "ResourceClaim" => &devices::CLAIM,
        "ResourceClaimTemplate" => &devices::CLAIM_TEMPLATE,
        _ => &devices::SLICE,
    }
}

fn storage_of(kind: &str) -> &'static KindBehavior {
    match kind {
        "CSIDriver" => &storage::csi::DRIVER,
        "CSINode" => &storage::csi::NODE,
        "CSIStorageCapacity" => &storage::csi::CAPACITY,
        "StorageClass" => &storage::classes::STORAGE_CLASS,
        "VolumeAttachment" => &storage::classes::ATTACHMENT,
        _ => &storage::classes::ATTRIBUTES_CLASS,
    }
}
