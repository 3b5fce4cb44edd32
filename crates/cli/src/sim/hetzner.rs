//! `aplomb sim hetzner`.

use anyhow::Context;
use aplomb_apimachinery::clock::Clock;
use aplomb_fake_services::hcloud::{Config, SameServer, Scope, Token};

use crate::args::{FractionArg, HetznerArgs, SameServerAssign};

pub(super) fn config(args: HetznerArgs) -> anyhow::Result<Config> {
    let path = args.token_file.display();
    let text = std::fs::read_to_string(&args.token_file);
    let text = text.with_context(|| format!("read the token file {path}"))?;
    let tokens = Token::file(&text).map_err(|why| anyhow::anyhow!("token file {path}: {why}"))?;
    let clock = Clock::system();
    let seed = args.seed.unwrap_or_else(|| clock.below(u64::MAX));
    Ok(Config {
        clock,
        seed,
        tokens,
        limit: args.limit,
        refill_per_second: args.refill_per_second,
        per: match args.per {
            FractionArg::Project => Scope::Project,
            FractionArg::Token => Scope::Token,
        },
        action_time: args.action_time.0,
        drain_on_refusal: args.drain_on_refusal,
        same_server_assign: match args.same_server_assign {
            SameServerAssign::Accepted => SameServer::Accepted,
            SameServerAssign::Refused => SameServer::Refused,
        },
    })
}
