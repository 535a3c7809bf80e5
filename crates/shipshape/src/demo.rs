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
use tokio::task::JoinHandle;

use crate::cli::{DemoOptions, Format};
use crate::output::{Reader, complain, reader_gone, say, unheard};
use crate::signals::Signals;
use crate::simulate::tell;
use kubeconfig::KubeconfigFile;
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
    let mut signals = Signals::listen()?;
    let rolled = tokio::select! {
        biased;
        asked = signals.asked() => {
            complain("ended on the way; the cluster is gone");
            return Ok(ExitCode::from(asked.code()));
        }
        () = reader_gone() => return Ok(unheard()),
        rolled = Box::pin(roll(options)) => rolled?,
    };
    let reader = summarise(options, &rolled.report)?;
    if !options.once {
        if reader == Reader::Gone {
            return Ok(unheard());
        }
        stay(&rolled, &mut signals).await?;
    }
    rolled.serving.abort();
    let code = if rolled.report.is_as_expected() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    Ok(code)
}

/// A cluster after its roll.
struct Rolled {
    report: Report,
    stage: Stage,
    kubeconfig: KubeconfigFile,
    serving: JoinHandle<std::io::Result<()>>,
    _world: World,
}

/// Sets the cluster up and shows it at work, up to the end of the run.
async fn roll(options: &DemoOptions) -> anyhow::Result<Rolled> {
    let scenario = cast::scenario(options.nodes)?;
    let mut spec = scenario.world.spec(options.seed);
    spec.start = cast::start(options);
    let world = World::start(spec).await?;
    let stage = Stage::embedded(&world);
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(world.api().clone().serve(listener));
    let kubeconfig = KubeconfigFile::write(options.kubeconfig.as_deref(), address)?;
    let screen = Screen::start(&stage, options, kubeconfig.path()).await;
    let played = {
        let play = Box::pin(play_on(&stage, &scenario));
        let mut ticking = Box::pin(screen.run(options.speed));
        tokio::select! {
            biased;
            played = play => played?,
            result = &mut ticking => { result?; anyhow::bail!("the screen went dark") }
        }
    };
    screen.finish()?;
    let mut report = played.report;
    report.seed = options.seed;
    report.trace_hash = world.trace_hash();
    Ok(Rolled {
        report,
        stage,
        kubeconfig,
        serving,
        _world: world,
    })
}

fn summarise(options: &DemoOptions, report: &Report) -> anyhow::Result<Reader> {
    if options.output == Format::Text {
        say("\n")?;
    }
    tell(options.output, report)
}

/// Keeps cluster and controllers at work, in real time, until the user has seen enough.
async fn stay(rolled: &Rolled, signals: &mut Signals) -> anyhow::Result<()> {
    say(&format!(
        "\nThe cluster stays up. Try:  export KUBECONFIG={}\n  kubectl get nodes,npr,npt\n  shipshape status\n  \
         shipshape simulate --from-cluster\nCtrl-C ends it, and the file goes with it.\n",
        rolled.kubeconfig.path().display()
    ))?;
    let mut operator = OperatorProcess::new(&rolled.stage, &Settings::default());
    operator.start();
    tokio::select! {
        biased;
        _ = signals.asked() => {}
        () = pace::keep_up(rolled.stage.clock) => {}
    }
    operator.stop().await?;
    Ok(())
}
