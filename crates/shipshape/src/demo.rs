//! `shipshape demo`: an embedded cluster, the real controllers, a live view and a kubeconfig.
//!
//! Owns the order of the show. The cluster answers on loopback only.

mod cast;
mod kubeconfig;
mod pace;
mod view;

use std::process::ExitCode;

use anyhow::Context;
use shipshape_engine::settings::Settings;
use shipshape_scenarios::story::{OperatorProcess, play_on};
use shipshape_scenarios::{Report, Stage};
use shipshape_simulator::world::World;
use tokio::net::TcpListener;

use crate::cli::{DemoOptions, Format};
use crate::output::say;
use crate::simulate::tell;
use view::Screen;

pub(crate) fn run(options: &DemoOptions) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(show(options))
}

async fn show(options: &DemoOptions) -> anyhow::Result<ExitCode> {
    let scenario = cast::scenario(options.nodes)?;
    let world = World::start(scenario.world.spec(options.seed)).await?;
    let stage = Stage::embedded(&world);
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(world.api().clone().serve(listener));
    let file = kubeconfig::write(options.kubeconfig.as_deref(), address)?;
    let screen = Screen::start(&stage, options, &file).await;
    let played = {
        let play = Box::pin(play_on(&stage, &scenario));
        let mut ticking = Box::pin(screen.run(options.speed));
        tokio::select! {
            biased;
            played = play => played?,
            result = &mut ticking => { result?; return Ok(ExitCode::SUCCESS) }
        }
    };
    screen.finish()?;
    let mut report = played.report;
    report.seed = options.seed;
    report.trace_hash = world.trace_hash();
    summarise(options, &report)?;
    if !options.once {
        stay(&stage, &file).await?;
    }
    serving.abort();
    let code = if report.is_as_expected() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    Ok(code)
}

fn summarise(options: &DemoOptions, report: &Report) -> anyhow::Result<()> {
    if options.output == Format::Text {
        say("\n")?;
    }
    tell(options.output, report)
}

/// Keeps cluster and controllers at work, in real time, until the user has seen enough.
async fn stay(stage: &Stage, kubeconfig: &std::path::Path) -> anyhow::Result<()> {
    say(&format!(
        "\nThe cluster stays up. Try:  kubectl --kubeconfig {} get nodes,npr,npt\nCtrl-C ends it.\n",
        kubeconfig.display()
    ))?;
    let mut operator = OperatorProcess::new(stage, &Settings::default());
    operator.start();
    tokio::select! {
        biased;
        result = tokio::signal::ctrl_c() => result.context("cannot hear Ctrl-C")?,
        () = pace::keep(1.0) => {}
    }
    operator.stop().await;
    Ok(())
}
