import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { pathProblems } from './config/file-access.ts';
import { loadEnvironment } from './config/load-environment.ts';
import { createSettingsStore } from './config/settings-store.ts';
import { DESTINATIONS } from './destinations/registry.ts';
import { createConnection } from './kubernetes/connection.ts';
import { loadKubeConfig } from './kubernetes/kube-config.ts';
import { openLevelLedger } from './ledger/leveldb/open-level-ledger.ts';
import { createLogger } from './telemetry/create-logger.ts';
import type { Logger } from './telemetry/logger.ts';
import { createRegistry } from './telemetry/registry.ts';
import { createScrubber } from './telemetry/scrubber.ts';
import { systemClock } from './telemetry/system-clock.ts';
import { buildOperator } from './wiring/build-operator.ts';
import {
  clusterAccess,
  followLogLevel,
  ownNamespace,
  stopSignal,
  VERSION,
} from './wiring/process.ts';
import { runParts } from './wiring/parts.ts';
import { loadConfiguredMetrics } from './wiring/prometheus.ts';

// The heap may outgrow what is in use by this much (percent) before it is collected: V8 would let it
// grow threefold, and the collections cost little beside what watches bring.
setFlagsFromString('--heap-growing-percent=25');

const clock = systemClock;
const random = Math.random;

process.exitCode = await main(stopSignal());

/** Configuration → build → run until the signal; gives the exit code. */
async function main(stopping: AbortSignal): Promise<number> {
  const loaded = loadEnvironment(process.env, DESTINATIONS);
  const problems = loaded.kind === 'invalid' ? loaded.problems : [];
  const denied = pathProblems(process.env, process);
  if (loaded.kind === 'invalid' || denied.length > 0) return refuse([...problems, ...denied]);
  const access = loadKubeConfig(clusterAccess(process.env));
  if (access.kind === 'invalid') return refuse([access.reason]);

  const environment = loaded.settings;
  const configured = await loadConfiguredMetrics(environment);
  if (configured.kind === 'invalid') return refuse(configured.problems);
  const settings = createSettingsStore(environment);
  const scrubber = createScrubber();
  scrubber.learn(environment);
  settings.subscribe((next) => scrubber.learn(next));
  const logger = createLogger({ ...environment.log, scrubber });
  followLogLevel(settings, logger);
  logger.info(`[controller] meterfeed ${VERSION} starts`, {
    settings: Object.fromEntries(loaded.effective.map(({ name, value }) => [name, value])),
  });
  for (const warning of loaded.warnings) logger.warn(`[controller] ${warning}`);
  stopOnBug(logger);

  const registry = createRegistry({ version: VERSION });
  const { dataDir, retentionMs } = environment.ledger;
  const opened = await openLevelLedger({
    directory: dataDir,
    retentionMs,
    clock,
    logger,
    registry,
  });
  if (opened.kind === 'failed') {
    logger.error(`[controller] the ledger cannot be opened: ${opened.message}`);
    return 1;
  }
  const { ledger } = opened;
  const connection = createConnection({ kubeConfig: access.kubeConfig });
  const parts = await buildOperator({
    version: VERSION,
    environment,
    configuredMetrics: configured.metrics,
    settings,
    connection,
    ledger,
    clock,
    random,
    logger,
    registry,
    stopping,
    namespace: ownNamespace(process.env),
    instance: hostname(),
  });
  const end = await runParts(parts, stopping, { clock, logger });
  await ledger.close();
  await connection.close();
  if (end.kind === 'failed') logger.error(`[controller] stopped: ${end.reason}`);
  else logger.info('[controller] stopped');
  return end.kind === 'failed' ? 1 : 0;
}

function refuse(problems: readonly string[]): number {
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  return 2;
}

/** What nobody expected may have left anything half done: end, and let the restart begin from the ledger. */
function stopOnBug(logger: Logger): void {
  const stop = (error: unknown): void => {
    logger.error('[controller] unexpected failure', { error });
    setImmediate(() => process.exit(70));
  };
  process.on('uncaughtException', stop);
  process.on('unhandledRejection', stop);
}
