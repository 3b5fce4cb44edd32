//! Guarantee: a token in a file is used for StableEgress objects that name no Secret; a new token
//! is used from the next read on, and a missing file is reported within one resync.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Around, Lab, SECRET, TOKEN, WEB, seconds, until};
use crate::operator::Replica;

/// Maximum time to the next read: its interval of 30 s plus jitter.
const RESYNC: Duration = Duration::from_secs(35);

/// A file for one test, deleted with it.
struct File(PathBuf);

impl File {
    fn new(test: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("token-of-{test}")))
    }

    /// Replaces it like a mounted Secret: atomically, by rename.
    fn write_token(&self, token: &str) {
        let next = self.0.with_extension("next");
        fs::write(&next, format!("{token}\n")).unwrap();
        fs::rename(next, &self.0).unwrap();
    }

    fn remove_file(&self) {
        fs::remove_file(&self.0).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // The test may have deleted the file already.
        drop(fs::remove_file(&self.0));
    }
}

fn other_token() -> String {
    TOKEN.chars().rev().collect()
}

/// The usual settings, with two accepted tokens for one project.
fn lab_options() -> Around {
    let token = |text: String| (SECRET.to_owned(), text);
    Around {
        tokens: vec![token(TOKEN.to_owned()), token(other_token())],
        ..Around::with_seed(3)
    }
}

/// Two candidates and a StableEgress without a Secret, served by the token in `file`.
async fn start_settled(lab: &Lab, file: &File) -> Replica {
    lab.candidates(WEB, 2).await;
    lab.floating_ip(0, WEB, |_| {});
    lab.egress(WEB, &json!({ "tokenSecretRef": Value::Null })).await;
    let replica = Replica::with_token_file(lab, "first", &file.0);
    lab.wait_serving(0, seconds(60)).await;
    assert_eq!(lab.condition(WEB, "Ready").status, "True");
    replica
}

/// The tokens used after the first `since` requests.
fn tokens_used(lab: &Lab, since: usize) -> Vec<String> {
    let requests = lab.hetzner.requests().split_off(since);
    let mut tokens: Vec<_> = requests.into_iter().filter_map(|it| it.token).collect();
    tokens.dedup();
    tokens
}

fn lacks_token(lab: &Lab) -> bool {
    let available = lab.condition(WEB, "Available");
    (&*available.status, &*available.reason) == ("False", "NoToken")
}

#[test]
fn another_token_in_the_file_is_used_from_the_next_read_on() {
    lab_options().run(|lab| async move {
        let file = File::new("another");
        file.write_token(TOKEN);
        let _replica = start_settled(&lab, &file).await;
        assert_eq!(tokens_used(&lab, 0), ["token-1"]);
        file.write_token(&other_token());
        let since = lab.hetzner.requests().len();
        let look = || lab.hetzner.requests().len() > since;
        let took = until(RESYNC, "the floating IP is read", look).await;
        sleep(seconds(120)).await;
        assert_eq!(tokens_used(&lab, since), ["token-2"]);
        assert_eq!(lab.condition(WEB, "Ready").status, "True");
        println!("another token in the file: used after {took:.1?}, Ready all the time");
        lab.nodes.cordon(0, true).await;
        lab.wait_serving(1, seconds(10)).await;
    });
}

#[test]
fn a_file_that_is_gone_is_reported_within_a_resync_and_so_is_its_return() {
    lab_options().run(|lab| async move {
        let file = File::new("gone");
        file.write_token(TOKEN);
        let _replica = start_settled(&lab, &file).await;
        file.remove_file();
        let gone = until(RESYNC, "NoToken", || lacks_token(&lab)).await;
        let path = file.0.display().to_string();
        let message = lab.condition(WEB, "Available").message;
        assert!(message.contains(&path), "{message}");
        let since = lab.hetzner.requests().len();
        sleep(seconds(120)).await;
        assert_eq!(tokens_used(&lab, since), [""; 0], "no token to call with");
        file.write_token(TOKEN);
        let back = until(RESYNC, "it serves", || lab.is_serving(0)).await;
        println!("token file deleted: reported after {gone:.1?}; restored: after {back:.1?}");
    });
}
