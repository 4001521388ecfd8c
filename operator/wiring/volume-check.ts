import type { Settings } from '../config/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { volumeNeeded } from '../ledger/volume-needed.ts';
import type { Logger } from '../telemetry/logger.ts';

/** What a tenant cluster brings in a window, as a rule. */
const EVENTS_PER_CLUSTER = 10;
const GIB = 1024 ** 3;

export interface VolumeCheckOptions {
  readonly discovery: Pick<Discovery, 'subscribe'>;
  readonly ledger: Pick<Ledger, 'stats'>;
  readonly settings: () => Settings;
  readonly logger: Logger;
}

/** Says once, when the tenant clusters are known, that the volume cannot hold RETENTION (design 9). */
export function warnOfSmallVolume(options: VolumeCheckOptions): void {
  const end = options.discovery.subscribe((clusters) => {
    if (clusters.length === 0) return;
    end();
    const { metering, ledger } = options.settings();
    const needed = volumeNeeded({
      eventsPerWindow: clusters.length * EVENTS_PER_CLUSTER,
      windowMs: metering.windowMs,
      retentionMs: ledger.retentionMs,
    });
    const { roomBytes } = options.ledger.stats();
    if (roomBytes === undefined || roomBytes >= needed) return;
    options.logger.warn(
      `[controller] the volume is too small for RETENTION: DATA_DIR: "${gib(roomBytes)} GiB" of about ${gib(needed)} GiB; enlarge it, lengthen COLLECTION_INTERVAL or shorten RETENTION`,
    );
  });
}

function gib(bytes: number): string {
  return (bytes / GIB).toFixed(1);
}
