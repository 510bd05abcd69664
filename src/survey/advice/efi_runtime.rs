//! EFI runtime services: calls of the kernel into the firmware, which no interrupt ends.

use super::{AdviceSource, SubjectReading, SurveyFinding};

const FIRMWARE: &str = "/sys/firmware";
/// The kernel makes these devices only when it may call the firmware (`efisubsys_init()`,
/// drivers/firmware/efi/efi.c).
const DEVICES: [&str; 2] =
    ["/sys/bus/platform/devices/efivars.0", "/sys/bus/platform/devices/rtc-efi.0"];

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let host = source.r.host;
    if !host.exists(FIRMWARE) {
        return None;
    }
    let efi = host.exists(&format!("{FIRMWARE}/efi"));
    let active = efi && DEVICES.iter().any(|device| host.exists(device));
    // PREEMPT_RT disables them by default, because some calls take too long
    // (CONFIG_EFI_DISABLE_RUNTIME, drivers/firmware/efi/Kconfig).
    Some(Vec::from_iter(active.then(|| {
        SurveyFinding::new(
            "efi-runtime",
            "EFI runtime services are enabled",
            "a call to the firmware, for example to read the clock or a boot variable, can stall a \
             CPU for a long time. Real-time kernels disable EFI runtime services by default; \
             efi=noruntime disables them on other kernels, but programs then cannot change boot \
             entries",
        )
    })))
}
