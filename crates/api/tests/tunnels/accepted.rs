//! Specs that are accepted, and the defaults that a server fills in.

use serde_json::json;

use crate::Lab;
use crate::fixtures::tunnel;

pub(crate) async fn defaults(lab: Lab) {
    let created = lab.create("HTTPProxy", "web", &tunnel()).await;
    let expected = json!({
        "connectorClassName": "aplomb",
        "proofInterval": "10s",
        "rules": tunnel()["rules"],
    });
    assert_eq!(created.expect("accepted"), expected);
    let connector = lab.create("Connector", "laptop", &json!({})).await;
    let expected = json!({ "connectorClassName": "aplomb", "leaseDurationSeconds": 30 });
    assert_eq!(connector.expect("accepted"), expected);
    let class = lab.create("ConnectorClass", "aplomb", &json!({})).await;
    let expected = json!({ "controllerName": "aplomb.dev/tunnel" });
    assert_eq!(class.expect("accepted"), expected);
    let networks = json!({ "backendNetworks": ["10.0.0.0/8", "fd12:3456::/48", "192.168.1.7/32"] });
    let class = lab.create("ConnectorClass", "inside", &networks).await;
    class.expect("accepted");
}

pub(crate) async fn all_fields(lab: Lab) {
    let spec = json!({
        "connectorClassName": "abroad",
        "hostnames": ["app.example.com", "xn--bcher-kva.example"],
        "tls": { "secretName": "app-tls" },
        "proofInterval": "2s",
        "rules": [
            {
                "name": "plain",
                "matches": [
                    { "path": { "value": "/docs" } },
                    {
                        "path": { "type": "RegularExpression", "value": "/users/[0-9]+" },
                        "headers": [
                            { "name": "X-Version", "value": "2" },
                            { "type": "RegularExpression", "name": "X-Tenant", "value": "a|b" },
                        ],
                        "queryParams": [{ "name": "q", "value": "x" }],
                        "method": "GET",
                    },
                ],
                "filters": [
                    { "type": "RequestHeaderModifier", "requestHeaderModifier": {
                        "set": [{ "name": "X-From", "value": "tunnel, \t\"quoted\"" }],
                        "add": [{ "name": "X-From", "value": "b" }],
                        "remove": ["Cookie"],
                    } },
                    { "type": "ResponseHeaderModifier", "responseHeaderModifier": {
                        "remove": ["Server"],
                    } },
                    { "type": "URLRewrite", "urlRewrite": {
                        "hostname": "inner.example.com",
                        "path": { "type": "ReplaceFullPath", "replaceFullPath": "/index.html" },
                    } },
                ],
                "timeout": "30s",
                "backends": [{
                    "endpoint": "https://192.0.2.7:8443",
                    "tls": { "hostname": "inner.example.com" },
                }],
            },
            {
                "matches": [{ "path": { "value": "/old" } }],
                "filters": [{ "type": "RequestRedirect", "requestRedirect": {
                    "scheme": "https", "hostname": "app.example.com", "port": 443, "statusCode": 301,
                    "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/new" },
                } }],
            },
            { "backends": [{ "instance": { "name": "web-x7k2p", "port": 8080 } }] },
        ],
    });
    let created = lab.create("HTTPProxy", "web", &spec).await.expect("accepted");
    serde_json::from_value::<aplomb_api::tunnel::HttpProxySpec>(created).expect("understood");
}
