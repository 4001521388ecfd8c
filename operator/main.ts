import { hostname } from 'node:os';
import { pathProblems } from './settings/file-access.ts';
import { loadEnvironment } from './settings/load-environment.ts';
import { DESTINATIONS } from './destinations/registry.ts';
import { loadKubeConfig } from './kubernetes/kube-config.ts';
import { createLogger } from './telemetry/create-logger.ts';
import type { Logger } from './telemetry/logger.ts';
import { Scrubber } from './telemetry/scrubber.ts';
import { systemClock } from './telemetry/system-clock.ts';
import {
  clusterAccess,
  hubClusterAccess,
  ownInstance,
  ownNamespace,
  stopSignal,
  VERSION,
} from './app/process.ts';
import { loadConfiguredMetrics } from './app/prometheus.ts';
import { runProcess } from './app/run-process.ts';

/** Time for the last log lines to be written. */
const LINGER_MS = 1_000;

process.exitCode = await main(stopSignal());
// Work that did not end in time must not continue beside the next process.
setTimeout(() => process.exit(), LINGER_MS).unref();

/** Reads the configuration, builds, and runs until the signal. Returns the exit code. */
async function main(stopping: AbortSignal): Promise<number> {
  const loaded = loadEnvironment(process.env, DESTINATIONS);
  const problems = loaded.kind === 'invalid' ? loaded.problems : [];
  const denied = pathProblems(process.env, process);
  if (loaded.kind === 'invalid' || denied.length > 0) return refuse([...problems, ...denied]);
  const environment = loaded.settings;
  const place =
    environment.role === 'hub' ? hubClusterAccess(process.env) : clusterAccess(process.env);
  const access = place && loadKubeConfig(place);
  if (access?.kind === 'invalid') return refuse([access.reason]);
  const configured = await loadConfiguredMetrics(environment);
  if (configured.kind === 'invalid') return refuse(configured.problems);
  const scrubber = new Scrubber();
  scrubber.learn(environment);
  const logger = createLogger({ ...environment.log, scrubber });
  logger.info(`[controller] meterfeed ${VERSION} starts`, {
    settings: Object.fromEntries(loaded.effective.map(({ name, value }) => [name, value])),
  });
  for (const warning of loaded.warnings) logger.warn(`[controller] ${warning}`);
  stopOnBug(logger);

  const end = await runProcess(
    {
      version: VERSION,
      environment,
      instance: ownInstance(process.env, hostname()),
      clock: systemClock,
      random: Math.random,
      logger,
      scrubber,
      cluster: access && {
        kubeConfig: access.kubeConfig,
        namespace: ownNamespace(process.env),
      },
      pod: process.env['POD_NAME'] || undefined,
      configuredMetrics: configured.metrics,
    },
    stopping,
  );
  if (end.kind === 'failed') logger.error(`[controller] stopped: ${end.reason}`);
  else logger.info('[controller] stopped');
  return end.kind === 'failed' ? 1 : 0;
}

function refuse(problems: readonly string[]): number {
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  return 2;
}

/**
 * Ends the process on an unexpected error. Any state may be half done, so the restart begins from
 * the ledger.
 */
function stopOnBug(logger: Logger): void {
  const stop = (error: unknown): void => {
    logger.error('[controller] unexpected failure', { error });
    setImmediate(() => process.exit(70));
  };
  process.on('uncaughtException', stop);
  process.on('unhandledRejection', stop);
}
