//! Where the provider for a manifest comes from.
//!
//! Owns the step from a manifest's `provider` block to a cloud. Called by controllers with the block
//! of the task or run at hand.

use std::sync::Arc;

use async_trait::async_trait;
use shipshape_api::ProviderRef;

use crate::{Provider, Result};

/// Makes the provider that a block asks for. Asked on every pass: what is costly is kept.
#[async_trait]
pub trait ProviderSource: Send + Sync {
    /// The provider for this block.
    async fn provider(&self, block: &ProviderRef) -> Result<Arc<dyn Provider>>;
}

/// A provider without settings serves every block.
#[async_trait]
impl<P: Provider + Clone + 'static> ProviderSource for P {
    async fn provider(&self, _: &ProviderRef) -> Result<Arc<dyn Provider>> {
        Ok(Arc::new(self.clone()))
    }
}
