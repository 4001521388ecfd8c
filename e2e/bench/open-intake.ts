import { loadHeldUsage } from '../../operator/billing/held-usage/testing/held-usage.ts';
import { Intake } from '../../operator/intake/intake.ts';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { silentLogger } from '../../operator/ledger/testing/level-ledger.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';

const HOUR_MS = 3_600_000;

/** An intake of hourly windows that is loaded, with its ledger in a directory. It knows every tenant. */
export async function openIntake(directory: string) {
  const opened = await openLevelLedger({
    directory,
    retentionMs: 35 * 24 * HOUR_MS,
    clock: systemClock,
    logger: silentLogger,
  });
  if (opened.kind === 'failed') throw new Error(opened.message);
  const { ledger } = opened;
  const held = await loadHeldUsage(ledger, { isDiscovered: () => true });
  const intake = new Intake({
    ledger,
    held,
    clock: systemClock,
    logger: silentLogger,
    region: 'eu-1',
    unitOf: (metric) => (metric === 'tenant_inference_tokens' ? 'tokens' : 'requests'),
    windowMs: () => HOUR_MS,
    lateForMs: () => 2 * HOUR_MS,
  });
  await intake.load();
  return { ledger, held, intake };
}
