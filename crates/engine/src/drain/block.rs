//! Why a pod cannot go now.
//!
//! Owns the reasons and their words: a stable one for programs, a sentence for people that says what
//! would help.

use jiff::Timestamp;
use shipshape_api::node_patch_task::BlockedEviction;

/// How the server's own words are introduced.
const REFUSED: &str = "the API server refused: ";

/// Why a pod cannot go now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Its disruption budget has no room now.
    Budget(String),
    /// Its disruption budget never has room.
    Hopeless {
        /// Name of the budget.
        budget: String,
        /// What it demands.
        demand: String,
    },
    /// Two budgets guard it, and the API server refuses such an eviction for ever.
    ManyBudgets(Vec<String>),
    /// The budget's selector cannot be understood.
    BadSelector(String),
    /// No controller would bring it back.
    Bare,
    /// Its DaemonSet is gone, so nothing would bring it back.
    Orphaned,
    /// Its emptyDir data would be lost.
    LocalData,
    /// The API server refused, for a reason that cannot be seen from here.
    Refused {
        /// The budgets that the server named.
        budgets: Vec<String>,
        /// Its words.
        message: String,
    },
    /// It should be gone and is not.
    Stuck {
        /// When its grace was over.
        since: Timestamp,
        /// What must be done before it can go.
        finalizers: Vec<String>,
    },
}

impl Block {
    /// The block that a status has recorded by its word and its budgets, as far as these two say it.
    pub fn recorded(word: &str, budgets: &str) -> Option<Self> {
        let budget = budgets.to_owned();
        let all = || budgets.split(", ").map(str::to_owned).collect();
        match word {
            "BudgetExhausted" => Some(Self::Budget(budget)),
            "BudgetHopeless" => Some(Self::Hopeless {
                budget,
                demand: String::new(),
            }),
            "ManyBudgets" => Some(Self::ManyBudgets(all())),
            "BudgetSelectorInvalid" => Some(Self::BadSelector(budget)),
            "BarePod" => Some(Self::Bare),
            "DaemonSetGone" => Some(Self::Orphaned),
            "LocalData" => Some(Self::LocalData),
            "EvictionRefused" => Some(Self::Refused {
                budgets: all(),
                message: String::new(),
            }),
            "StuckTerminating" => Some(Self::Stuck {
                since: Timestamp::UNIX_EPOCH,
                finalizers: Vec::new(),
            }),
            _ => None,
        }
    }

    /// The refusal that a status tells of, word for word; `None` where it tells of something else.
    pub fn refused_as_told(told: &BlockedEviction) -> Option<Self> {
        let budgets = told.budget.as_deref().unwrap_or_default();
        let block = Self::recorded(told.reason.as_deref()?, budgets)?;
        let Self::Refused { mut budgets, .. } = block else {
            return None;
        };
        budgets.retain(|name| !name.is_empty());
        let message = told.message.strip_prefix(REFUSED)?.to_owned();
        Some(Self::Refused { budgets, message })
    }

    /// Whether only a person can help; the others may pass by themselves.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Budget(_) | Self::Refused { .. })
    }

    /// A stable word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Budget(_) => "BudgetExhausted",
            Self::Hopeless { .. } => "BudgetHopeless",
            Self::ManyBudgets(_) => "ManyBudgets",
            Self::BadSelector(_) => "BudgetSelectorInvalid",
            Self::Bare => "BarePod",
            Self::Orphaned => "DaemonSetGone",
            Self::LocalData => "LocalData",
            Self::Refused { .. } => "EvictionRefused",
            Self::Stuck { .. } => "StuckTerminating",
        }
    }

    /// The budgets that are in the way.
    pub fn budgets(&self) -> String {
        match self {
            Self::Budget(name) | Self::BadSelector(name) | Self::Hopeless { budget: name, .. } => {
                name.clone()
            }
            Self::ManyBudgets(names) | Self::Refused { budgets: names, .. } => names.join(", "),
            Self::Bare | Self::Orphaned | Self::LocalData | Self::Stuck { .. } => String::new(),
        }
    }

    /// One sentence that says what is in the way.
    pub fn sentence(&self) -> String {
        match self {
            Self::Budget(name) => format!("disruption budget {name} allows no eviction now"),
            Self::Hopeless { budget, demand } => {
                format!("disruption budget {budget} can never allow an eviction ({demand})")
            }
            Self::ManyBudgets(names) => format!(
                "disruption budgets {} all select this pod; the API server refuses to evict it until \
                 only one does",
                names.join(" and ")
            ),
            Self::BadSelector(name) => {
                format!("the selector of disruption budget {name} is not valid")
            }
            Self::Bare => {
                "no controller would bring this pod back; delete it or give it an owner".to_owned()
            }
            Self::Orphaned => {
                "its DaemonSet is gone, so nothing would bring this pod back; delete it".to_owned()
            }
            Self::LocalData => {
                "it keeps data in an emptyDir volume, which would be lost; delete it or allow \
                 spec.drain.emptyDir: Evict"
                    .to_owned()
            }
            Self::Refused { message, .. } => format!("{REFUSED}{message}"),
            Self::Stuck { since, finalizers } if finalizers.is_empty() => {
                format!(
                    "its grace was over at {since} and it is still there; is its kubelet alive?"
                )
            }
            Self::Stuck { since, finalizers } => format!(
                "its grace was over at {since} and it is still there; finalizers: {}",
                finalizers.join(", ")
            ),
        }
    }

    /// What would help.
    pub fn remedy(&self) -> String {
        match self {
            Self::Budget(_) => "wait until more of its pods are healthy".to_owned(),
            Self::Hopeless { budget, .. } => {
                format!("let {budget} allow at least one pod to be away, or add a replica")
            }
            Self::ManyBudgets(names) => {
                format!(
                    "let only one of {} select the pod, then change that one, if only by an \
                     annotation: Kubernetes may not have counted its pods meanwhile",
                    names.join(", ")
                )
            }
            Self::BadSelector(name) => format!("correct the selector of {name}"),
            Self::Bare => {
                "delete the pod, give it an owner, or set spec.drain.barePods: Evict".to_owned()
            }
            Self::Orphaned => "delete the pod, or set spec.drain.barePods: Evict".to_owned(),
            Self::LocalData => "delete the pod, or set spec.drain.emptyDir: Evict".to_owned(),
            Self::Refused { .. } => "see what the API server says".to_owned(),
            Self::Stuck { .. } => "see to its finalizers and its kubelet".to_owned(),
        }
    }
}
