//! What a drain needs to know of a VolumeAttachment.
//!
//! Owns one small value. Must not judge whether the volume is still needed.

use k8s_openapi::api::storage::v1::VolumeAttachment;

/// A volume that is attached to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentView {
    /// Name of the VolumeAttachment.
    pub name: String,
    /// Node it is attached to.
    pub node: String,
    /// Name of the PersistentVolume; empty for a volume that is described in the pod itself.
    pub volume: String,
    /// Namespace and name of the claim that the volume is bound to, as far as it is known.
    pub claim: Option<(String, String)>,
}

impl AttachmentView {
    /// Reads a VolumeAttachment; it does not name the claim.
    pub fn of(attachment: &VolumeAttachment) -> Self {
        let volume = attachment.spec.source.persistent_volume_name.clone();
        Self {
            name: attachment.metadata.name.clone().unwrap_or_default(),
            node: attachment.spec.node_name.clone(),
            volume: volume.unwrap_or_default(),
            claim: None,
        }
    }

    /// The name that tells the volume from others: that of the attachment where it has none itself.
    pub fn known_as(&self) -> &str {
        if self.volume.is_empty() {
            &self.name
        } else {
            &self.volume
        }
    }
}
