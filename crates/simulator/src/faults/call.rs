//! What befalls a call that is no request to the API: of a cloud, or of etcd.
//!
//! Owns the meaning of each fault for such a call. Must not know what is called.

use super::{Asked, Fault, Faults};

impl Faults {
    /// Carries a call out as the plan lets it; `broken` is what the caller hears of one that failed.
    pub(super) async fn call<R, E, F: Future<Output = Result<R, E>> + Send>(
        &self,
        asked: &Asked,
        broken: impl Fn(&Fault) -> E + Send + Sync,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R, E> {
        let name = asked.path.clone();
        let Some(fault) = self.meet(asked).await else {
            return work().await;
        };
        match &fault {
            Fault::Delay(time) => {
                tokio::time::sleep(*time).await;
                work().await
            }
            Fault::LoseAnswer => {
                work().await?;
                Err(broken(&fault))
            }
            Fault::Duplicate => {
                work().await?;
                work().await
            }
            Fault::Drop | Fault::Fail { .. } => Err(broken(&fault)),
            Fault::CrashBefore => {
                self.crash(&name, &fault);
                std::future::pending().await
            }
            Fault::CrashAfter => {
                // What is answered, nobody will ever know.
                drop(work().await);
                self.crash(&name, &fault);
                std::future::pending().await
            }
            // There are neither lists nor watches of this kind.
            Fault::StaleList | Fault::EmptyList | Fault::LagWatch(_) | Fault::BreakWatch(_) => {
                work().await
            }
        }
    }
}
