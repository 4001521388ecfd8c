import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { settingsOf } from '../config/testing/effects.ts';
import { createAwayLedger } from '../ledger/testing/away-ledger.ts';
import { TEST_WINDOW_START, testWindow } from '../ledger/testing/events.ts';
import { silentLogger } from '../ledger/testing/level-ledger.ts';
import { drain } from '../ledger/testing/spooled-ledger.ts';
import { createRegistry } from '../telemetry/registry.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { createMeterLedger } from './meter-ledger.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meter-ledger-'));
});
afterEach(() => rm(directory, { recursive: true }));

const WINDOW = { events: testWindow(TEST_WINDOW_START, 3) };

async function begin(environment: Readonly<Record<string, string>>) {
  const ledger = createAwayLedger();
  const registry = createRegistry({ version: '0' });
  const common = { ledger, registry, clock: systemClock, logger: silentLogger };
  const settings = settingsOf({ DATA_DIR: directory, ...environment });
  const meter = createMeterLedger({ ...common, environment: settings });
  expect(await meter.spool?.begin()).not.toMatchObject({ kind: 'failed' });
  return { ledger, registry, meter };
}

async function metric(registry: Registry, name: string): Promise<number | undefined> {
  return (await registry.getSingleMetric(name)?.get())?.values[0]?.value;
}

describe('windows go', () => {
  test('into DATA_DIR/spool while the database of LEDGER_URL is away, and metrics tell', async () => {
    const { ledger, registry, meter } = await begin({
      LEDGER_URL: 'postgresql://m@db/ledger',
      LEDGER_SPOOL_SIZE: '1Mi',
    });
    ledger.presence = 'away';
    expect(await meter.ledger.append(WINDOW)).toMatchObject({ kind: 'appended' });
    expect(await readdir(directory)).toEqual(['spool']);
    expect(await metric(registry, 'meterfeed_spool_batches')).toBe(1);
    expect(await metric(registry, 'meterfeed_spool_bytes')).toBeGreaterThan(1_000);
    expect(await metric(registry, 'meterfeed_spool_limit_bytes')).toBe(2 ** 20);
    ledger.presence = 'there';
    if (meter.spool !== undefined) await drain(meter.spool);
    expect(ledger.head()).toBe(3);
    expect(await metric(registry, 'meterfeed_spool_batches')).toBe(0);
    expect(await metric(registry, 'meterfeed_spools_aside')).toBe(0);
    await meter.spool?.close();
  });

  test('straight into a ledger on the volume', async () => {
    const { ledger, registry, meter } = await begin({});
    expect(meter.ledger).toBe(ledger);
    expect(meter.spool).toBeUndefined();
    expect(await metric(registry, 'meterfeed_spool_limit_bytes')).toBe(0);
  });
});
