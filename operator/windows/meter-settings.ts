import type { Settings } from '../config/settings.ts';
import type { MeterSettings } from '../metering/meter.ts';
import { sampleHoldMs } from '../observation/usage-samples.ts';
import type { Window } from '../model/window.ts';

/** What the meters need of the settings in force, for a window of this size. */
export function meterSettings({ identity, metering }: Settings, window: Window): MeterSettings {
  const { region, regionFromNode, zone, defaultTenantClass } = identity;
  const { dedicatedNodeLabel } = metering;
  return {
    region,
    regionFromNode,
    sampleHoldMs: sampleHoldMs(window.end - window.start),
    draGpuDrivers: metering.draGpuDrivers,
    gpuResources: metering.gpuResources,
    ...(zone === undefined ? {} : { zone }),
    ...(defaultTenantClass === undefined ? {} : { defaultTenantClass }),
    ...(dedicatedNodeLabel === undefined ? {} : { dedicatedNodeLabel }),
  };
}
