//! The configuration file while the controller runs: read again, applied where that can be done.
//!
//! Owns when the file is looked at, what of it applies at once and what needs a restart, and how that is
//! told. A file that is wrong changes nothing. The content is compared and not the time of the file: a
//! mounted ConfigMap is a link that is turned to another folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use shipshape_cluster::events::{Events, Notice, Severity};
use shipshape_controllers::{Retune, Tuning, Vitals};

use crate::config::Config;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(5);

/// The file as it was last seen.
pub(crate) struct Watched {
    path: PathBuf,
    /// What it said, or why it could not be read; `None` before the first look.
    seen: Option<Result<String, String>>,
    /// What the process was started with, and can have no other way: block and value.
    fixed: Vec<(&'static str, String)>,
    applied: Config,
}

/// What a look at the file came to.
#[derive(Debug)]
pub(crate) enum News {
    /// It is wrong; what was applied before still holds.
    Refused(String),
    /// It is right, and applies as far as it can.
    Taken {
        /// What decisions go by now, if that is something else.
        tuning: Option<Tuning>,
        /// Blocks that another start would read.
        needs_restart: Vec<&'static str>,
        /// Whether there is a gate from now on, if that is something else.
        gate: Option<bool>,
    },
}

impl News {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Taken {
                tuning,
                needs_restart,
                ..
            } => tuning.is_none() && needs_restart.is_empty(),
        }
    }
}

impl Watched {
    /// A file from which the process was started, with this content.
    pub(crate) fn new(path: &Path, config: Config) -> Self {
        Self {
            path: path.to_owned(),
            seen: None,
            fixed: config.fixed(),
            applied: config,
        }
    }

    /// Looks at the file; `None` when it is as before.
    pub(crate) fn look(&mut self) -> Option<News> {
        let read = std::fs::read_to_string(&self.path).map_err(|error| error.to_string());
        let before = self.seen.replace(read);
        if self.seen == before {
            return None;
        }
        // What was read is what is taken: a second read may find another text.
        let config = match self.seen.as_ref()? {
            Ok(text) => Config::of_text(&self.path, text),
            Err(why) => Err(anyhow::anyhow!(
                "cannot read --config {}: {why}",
                self.path.display()
            )),
        };
        let news = match config {
            Err(error) => News::Refused(format!("{error:#}")),
            Ok(config) if self.is_emptied(&config) => News::Refused(format!(
                "{} is empty; to switch everything off that it said, write {{}} into it",
                self.path.display()
            )),
            Ok(config) => self.take(config),
        };
        // The first look only makes sure that nothing has changed since the start.
        let is_news = before.is_some() || !news.is_nothing();
        is_news.then_some(news)
    }

    /// Whether the file has become empty, as it is for a moment while an editor writes it. At the start an empty file
    /// means the defaults.
    fn is_emptied(&self, config: &Config) -> bool {
        let is_empty = matches!(&self.seen, Some(Ok(text)) if text.trim_start_matches('\u{feff}').trim().is_empty());
        let is_other = config.tuned() != self.applied.tuned() || config.fixed() != self.fixed;
        is_empty && is_other
    }

    fn take(&mut self, config: Config) -> News {
        let now = config.fixed();
        let pairs = self.fixed.iter().zip(&now);
        let differs = pairs.filter(|(then, now)| then != now);
        let needs_restart = differs.map(|(then, _)| then.0).collect();
        let is_same = config.tuned() == self.applied.tuned();
        let tuning = (!is_same).then(|| config.tuning());
        let (was_on, is_on) = (self.applied.worker.is_some(), config.worker.is_some());
        self.applied = config;
        News::Taken {
            tuning,
            needs_restart,
            gate: (was_on != is_on).then_some(is_on),
        }
    }
}

/// Where news of the file go.
pub(crate) struct Ears {
    pub(crate) retune: Retune,
    pub(crate) vitals: Vitals,
    pub(crate) events: Events,
    /// What events are about: the lease of the controllers.
    pub(crate) about: ObjectReference,
}

/// Follows the file for as long as the process lives.
pub(crate) async fn follow(mut file: Watched, ears: Ears) {
    loop {
        tokio::time::sleep(EVERY).await;
        if let Some(news) = file.look() {
            ears.hear(news).await;
        }
    }
}

impl Ears {
    async fn hear(&self, news: News) {
        match news {
            News::Refused(why) => {
                tracing::error!(
                    why,
                    "the configuration file is wrong; settings stay as they were"
                );
                self.vitals.saw_settings("refused", true);
                let note = format!(
                    "the configuration file is wrong, and settings stay as they were: {why}"
                );
                self.tell(Severity::Warning, "SettingsRefused", note).await;
            }
            News::Taken {
                tuning,
                needs_restart,
                gate,
            } => {
                let is_stale = !needs_restart.is_empty();
                let outcome = if tuning.is_some() {
                    "applied"
                } else {
                    "unchanged"
                };
                self.vitals.saw_settings(outcome, is_stale);
                if let Some(tuning) = tuning {
                    let note = applied(gate);
                    tracing::info!("{note}");
                    self.retune.set(tuning);
                    self.tell(Severity::Normal, "SettingsApplied", note).await;
                }
                if is_stale {
                    let blocks = needs_restart.join(", ");
                    tracing::warn!(blocks, "these blocks have changed and need a restart");
                    let note =
                        format!("these blocks of the configuration file need a restart: {blocks}");
                    self.tell(Severity::Warning, "RestartNeeded", note).await;
                }
            }
        }
    }

    async fn tell(&self, severity: Severity, reason: &str, note: String) {
        let notice = Notice {
            severity,
            reason: reason.to_owned(),
            action: reason.to_owned(),
            note,
        };
        self.events.publish(&self.about, &notice).await;
    }
}

fn applied(gate: Option<bool>) -> String {
    let changed = "the configuration file has changed, and is applied";
    match gate {
        None => changed.to_owned(),
        Some(true) => format!("{changed}: there is a gate from now on, and new nodes must pass it"),
        Some(false) => format!(
            "{changed}: there is no gate any more, nodes are not verified, and taints that are there stay"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATE: &str = "worker: { image: { repository: r, tag: t } }\n";

    /// A folder that is mounted as a ConfigMap is: the file is a link into a folder behind a link.
    fn mount(folder: &Path, generation: &str, text: &str) {
        let data = folder.join(generation);
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("config.yaml"), text).unwrap();
        let next = folder.join("..data_tmp");
        std::os::unix::fs::symlink(&data, &next).unwrap();
        std::fs::rename(&next, folder.join("..data")).unwrap();
        let file = folder.join("config.yaml");
        if !file.exists() {
            std::os::unix::fs::symlink("..data/config.yaml", file).unwrap();
        }
    }

    fn retries(news: Option<News>) -> Option<i32> {
        let Some(News::Taken { tuning, .. }) = news else {
            panic!("{news:?}");
        };
        let gate = tuning?.gate?;
        Some(gate.reconciliation.max_retries)
    }

    #[test]
    fn a_file_is_taken_when_it_changes_and_a_wrong_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        mount(folder.path(), "1", GATE);
        let path = folder.path().join("config.yaml");
        let config = Config::load(Some(&path)).unwrap();
        let mut file = Watched::new(&path, config);
        assert!(file.look().is_none(), "as it was at the start");
        assert!(file.look().is_none());
        mount(
            folder.path(),
            "2",
            &format!("{GATE}reconciliation: {{ maxRetries: 7 }}\n"),
        );
        assert_eq!(retries(file.look()), Some(7));
        mount(
            folder.path(),
            "3",
            &format!("{GATE}reconciliation: {{ maxRetries: 0 }}\n"),
        );
        let Some(News::Refused(why)) = file.look() else {
            panic!("a wrong file is refused");
        };
        assert!(why.contains("reconciliation.maxRetries is 0"), "{why}");
        assert!(file.look().is_none(), "told once");
        std::fs::remove_file(&path).unwrap();
        assert!(
            matches!(file.look(), Some(News::Refused(_))),
            "a file that is gone"
        );
        mount(
            folder.path(),
            "4",
            &format!("{GATE}reconciliation: {{ maxRetries: 7 }}\n"),
        );
        assert_eq!(
            retries(file.look()),
            None,
            "what was applied before still holds"
        );
    }

    #[test]
    fn what_needs_a_restart_is_named_by_its_block_and_the_rest_applies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, GATE).unwrap();
        let config = Config::load(Some(&path)).unwrap();
        let mut file = Watched::new(&path, config);
        std::fs::write(&path, "namespace: other\nmetrics: { port: 9 }\n").unwrap();
        let Some(News::Taken {
            tuning,
            needs_restart,
            ..
        }) = file.look()
        else {
            panic!("it is right");
        };
        assert_eq!(needs_restart, ["namespace", "metrics"]);
        assert!(tuning.unwrap().gate.is_none(), "the gate is taken away");
        std::fs::write(&path, "settings: { cloudLag: 9s }\n").unwrap();
        let Some(News::Taken {
            tuning,
            needs_restart,
            ..
        }) = file.look()
        else {
            panic!("it is right");
        };
        assert_eq!(needs_restart, [""; 0], "as the process was started");
        assert_eq!(tuning.unwrap().settings.cloud_lag.as_secs(), 9);
    }

    #[test]
    fn an_emptied_file_changes_nothing_and_a_gate_that_goes_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, GATE).unwrap();
        let mut file = Watched::new(&path, Config::load(Some(&path)).unwrap());
        std::fs::write(&path, "").unwrap();
        let Some(News::Refused(why)) = file.look() else {
            panic!("an emptied file is refused");
        };
        assert!(why.contains("is empty"), "{why}");
        std::fs::write(&path, "{}").unwrap();
        let Some(News::Taken { tuning, gate, .. }) = file.look() else {
            panic!("this is meant");
        };
        assert_eq!((tuning.unwrap().gate.is_none(), gate), (true, Some(false)));
        assert!(applied(gate).contains("no gate any more"));
        std::fs::write(&path, "").unwrap();
        let mut file = Watched::new(&path, Config::load(Some(&path)).unwrap());
        assert!(file.look().is_none(), "at the start it means the defaults");
    }
}
