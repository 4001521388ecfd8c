import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ManualClock } from '../kubernetes/testing/manual-clock.ts';
import { createAwayLedger } from '../ledger/testing/away-ledger.ts';
import { beginSpooled, drain } from '../ledger/testing/spooled-ledger.ts';
import { gpuNode, N1 } from '../metering/testing/gpu-nodes.ts';
import { cluster, pod } from '../metering/testing/objects.ts';
import { createHandTenant, type HandTenant } from './testing/hand-tenant.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  life,
  type Process,
  pass,
  running,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

let dataDir = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'spool-'));
});
afterEach(() => rm(dataDir, { recursive: true }));

/** Windows are closed up to there; a disk is awaited as well. */
async function closed(process: Process, clock: ManualClock, second: number): Promise<void> {
  await pass(clock, Math.max(0, (at(second + 4) - clock.now()) / 1000));
  while ((process.collector.lastWindow?.end ?? 0) < at(second)) await pass(clock, 1);
}

const brief = pod({ ...life, name: 'brief', createdAt: at(100), startedAt: at(100) });

test('a pod that came and went while the database was away is billed, although the process was killed before it was back', async () => {
  const away = createAwayLedger();
  const clock = clockAt(-20);
  const spooled = await beginSpooled({ ledger: away, dataDir });
  const before = await startProcess({ ledger: spooled, clock, objects: { pods: [running] } });
  before.discover([cluster('a')]);
  await pass(clock, 20 + 70);
  expect(before.collector.closedHead()).toBe(away.head());
  away.presence = 'away';
  await pass(clock, 30);
  before.pods.apply(brief);
  await pass(clock, 30);
  before.pods.remove(brief);
  await closed(before, clock, 240);
  // Windows are closed in time, and nobody takes them for what the database has.
  expect(windowsOf(await eventsOf(away))).toEqual(['12:01:00']);
  expect(spooled.spooling.isEmpty()).toBe(false);
  expect(before.collector.closedHead()).toBeUndefined();
  await before.kill();
  await spooled.close();

  away.presence = 'there';
  const again = await beginSpooled({ ledger: away, dataDir });
  const after = await startProcess({ ledger: again, clock, objects: { pods: [running] } });
  after.discover([cluster('a')]);
  await drain(again);
  await closed(after, clock, 360);
  const events = await eventsOf(away);
  const until = (after.collector.lastWindow?.end ?? 0) - at(0);
  expect(Math.round(coreSeconds(events))).toBe(until / 1000 + 30);
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  expect(after.collector.closedHead()).toBe(away.head());
  await after.kill();
  await again.close();
});

test('a tenant cluster that goes while the database is away holds up no window, and is forgotten when it is back', async () => {
  const away = createAwayLedger();
  const clock = clockAt(-20);
  const spooled = await beginSpooled({ ledger: away, dataDir });
  const tenants: HandTenant[] = [];
  const process = await startProcess({
    ledger: spooled,
    clock,
    objects: { pods: [running] },
    tenants: {
      list: () => tenants,
      release: () => void tenants.splice(0),
    },
  });
  const { tenantClusters } = process.observation;
  const tenant = createHandTenant({ id: cluster('a').id, clock, tenantClusters });
  tenant.node(gpuNode(N1));
  process.discover([cluster('a')]);
  tenants.push(tenant);
  await pass(clock, 20 + 70);
  away.presence = 'away';
  process.discover([]);
  tenant.observation.nodes.listed(() => false, clock.now());
  tenant.ended = { at: clock.now(), knownUntil: clock.now() };
  await closed(process, clock, 240);
  expect(tenants).toEqual([tenant]);
  away.presence = 'there';
  await drain(spooled);
  while (tenants.length > 0) await pass(clock, 1);
  const journal = await Array.fromAsync(away.records('journal/tenant-api'));
  expect(journal).toEqual([]);
  await process.kill();
  await spooled.close();
});
