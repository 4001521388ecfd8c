import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express from 'express';
import { Registry } from 'prom-client';
import { loadEnvironment } from '../../operator/settings/load-environment.ts';
import type { Settings } from '../../operator/settings/settings.ts';
import { createHttpServer } from '../../operator/http/server.ts';
import { quietViews } from '../../operator/http/testing/test-server.ts';
import { loadHeldUsage } from '../../operator/billing/held-usage/testing/held-usage.ts';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { createLogger } from '../../operator/telemetry/create-logger.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';
import { createBareLedger } from './bare-ledger.ts';
import { DESTINATIONS } from '../../operator/destinations/registry.ts';

type Kind = 'meterfeed' | 'express' | 'bare-ledger';

/** One side of the ingest bench, told by its first argument; tells its parent the port it listens on. */
const [kind, token] = process.argv.slice(2) as [Kind, string];
const directory = await mkdtemp(join(tmpdir(), 'meterfeed-bench-'));
const SERVE: Readonly<Record<Kind, () => Promise<number>>> = {
  meterfeed: serveMeterfeed,
  express: () => serveExpress(async () => undefined),
  'bare-ledger': async () => {
    const ledger = await createBareLedger(join(directory, 'bare'));
    return serveExpress((events) => ledger.append(events));
  },
};
process.send?.(await SERVE[kind]());

function stopWith(close: () => Promise<unknown>): void {
  process.once('disconnect', () => {
    void close()
      .then(() => rm(directory, { recursive: true, force: true }))
      .finally(() => process.exit(0));
  });
}

/** Parses a body, does one thing with its events, and answers. */
async function serveExpress(store: (events: readonly unknown[]) => Promise<void>): Promise<number> {
  const app = express();
  app.use(express.json({ limit: '10mb' }));
  app.post('/api/v1/events', async (request, response) => {
    const { events } = request.body as { events: unknown[] };
    await store(events);
    response.json({ accepted: events.length });
  });
  stopWith(async () => undefined);
  return new Promise((resolve) => {
    const server = app.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
}

/** As in production, but for the rate limit, and with nothing to discover or to deliver. */
async function serveMeterfeed(): Promise<number> {
  const loaded = loadEnvironment(
    {
      ADAPTERS: 'noop',
      LISTEN_ADDR: '127.0.0.1:0',
      CUSTOM_METRICS: 'tokens_used:tokens:model',
      API_TOKEN: token,
    },
    DESTINATIONS,
  );
  if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded));
  const { ingest } = loaded.settings;
  const settings: Settings = {
    ...loaded.settings,
    ingest: { ...ingest, unknownTenants: 'create' },
  };
  const logger = createLogger({ level: 'warn', format: 'text', output: process.stderr });
  const metrics = new Registry();
  const clock = systemClock;
  const opened = await openLevelLedger({
    directory,
    retentionMs: settings.ledger.retentionMs,
    clock,
    logger,
    registry: metrics,
  });
  if (opened.kind === 'failed') throw new Error(opened.message);
  const { ledger } = opened;
  const held = await loadHeldUsage(ledger, {
    unknownTenants: () => settings.ingest.unknownTenants,
  });
  const server = createHttpServer({
    version: 'bench',
    views: { ...quietViews(() => settings), held },
    ledger,
    clock,
    logger,
    metrics,
    limits: { requestsPerSecond: undefined },
  });
  stopWith(() => server.close().then(() => ledger.close()));
  const { main } = await server.listen(new AbortController().signal);
  return main.port;
}
