import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express from 'express';
import { Registry } from 'prom-client';
import { loadEnvironment } from '../../operator/config/load-environment.ts';
import { createHttpServer } from '../../operator/http/server.ts';
import { quietViews } from '../../operator/http/testing/test-server.ts';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { createLogger } from '../../operator/telemetry/create-logger.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';

/** One side of the ingest bench, told by its first argument; tells its parent the port it listens on. */
const [kind, token = ''] = process.argv.slice(2);
const port = kind === 'express' ? await serveExpress() : await serveMeterfeed(token);
process.send?.(port);

async function serveExpress(): Promise<number> {
  const app = express();
  app.use(express.json({ limit: '10mb' }));
  app.post('/api/v1/events', (request, response) => {
    const { events } = request.body as { events: unknown[] };
    response.json({ accepted: events.length });
  });
  return new Promise((resolve) => {
    const server = app.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
}

/** As in production, but for the rate limit, and with nothing to discover or to deliver. */
async function serveMeterfeed(ingestToken: string): Promise<number> {
  const loaded = loadEnvironment({
    ADAPTERS: 'noop',
    LISTEN_ADDR: '127.0.0.1:0',
    CUSTOM_METRICS: 'tokens_used:tokens:model',
    API_TOKEN: ingestToken,
  });
  if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded));
  const { settings } = loaded;
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-bench-'));
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
  const server = createHttpServer({
    version: 'bench',
    views: quietViews(() => settings),
    ledger,
    clock,
    logger,
    metrics,
    limits: { requestsPerSecond: undefined },
  });
  process.once('SIGTERM', () => {
    void server
      .close()
      .then(() => ledger.close())
      .then(() => rm(directory, { recursive: true, force: true }))
      .finally(() => process.exit(0));
  });
  const address = await server.listen(new AbortController().signal);
  return address.port;
}
