import type { KubeConfig } from '@kubernetes/client-node';
import type { Settings } from '../config/settings.ts';
import { createSettingsStore } from '../config/settings-store.ts';
import { type Connection, createConnection } from '../kubernetes/connection.ts';
import { isRecord } from '../model/is-record.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { AdjustableLogger } from '../telemetry/create-logger.ts';
import { createRegistry } from '../telemetry/registry.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import type { OperatorOptions } from './build-context.ts';
import { buildOperator } from './build-operator.ts';
import { createMeterLedger } from './meter-ledger.ts';
import { openLedger } from './open-ledger.ts';
import { type PartsEnd, runParts, STOP_DEADLINE_MS } from './parts.ts';
import { followLogLevel } from './process.ts';
import { readStoredPolicy } from './stored-policy.ts';

export interface RunOptions
  extends Pick<
    OperatorOptions,
    | 'version'
    | 'environment'
    | 'configuredMetrics'
    | 'namespace'
    | 'instance'
    | 'clock'
    | 'random'
    | 'heap'
  > {
  readonly kubeConfig: KubeConfig;
  /** Where other replicas reach this process, `host:port`. */
  readonly address: string;
  readonly logger: AdjustableLogger;
  readonly scrubber: Scrubber;
}

type BuiltEnd =
  | PartsEnd
  | { readonly kind: 'rebuild'; readonly watchNamespaces: readonly string[] };

/**
 * Runs the operator until the signal is aborted or a part cannot go on. When the settings come to name other
 * namespaces, all of it is stopped in order and built anew in this process: the watches then resume from the
 * journal, as they do after a restart (docs/operations.md#other-namespaces).
 */
export async function runOperator(options: RunOptions, stopping: AbortSignal): Promise<PartsEnd> {
  let watchNamespaces: readonly string[] | undefined;
  for (;;) {
    const end = await runBuilt(options, watchNamespaces, stopping);
    if (end.kind !== 'rebuild') return end;
    if (stopping.aborted) return { kind: 'stopped' };
    ({ watchNamespaces } = end);
    const told = watchNamespaces.length === 0 ? 'all' : watchNamespaces.join(', ');
    options.logger.info(`[controller] everything is built anew, to watch the namespaces: ${told}`);
  }
}

/** From the ledger's opening to its closing. `given` are the namespaces to watch, when they are known. */
async function runBuilt(
  options: RunOptions,
  given: readonly string[] | undefined,
  stopping: AbortSignal,
): Promise<BuiltEnd> {
  const { environment, clock, logger, scrubber, address } = options;
  const settings = createSettingsStore(environment);
  settings.subscribe((next) => scrubber.learn(next));
  logger.setLevel(environment.log.level);
  followLogLevel(settings, logger);
  const registry = createRegistry({ version: options.version });
  const opened = await openLedger(environment, {
    clock,
    logger,
    scrubber,
    registry,
    address,
  });
  if (opened.kind === 'failed') {
    return { kind: 'failed', reason: `the ledger cannot be opened: ${opened.message}` };
  }
  const { ledger, replica } = opened;
  const meter = createMeterLedger({ environment, ledger, clock, logger, registry });
  const connection = createConnection({ kubeConfig: options.kubeConfig });
  const watchNamespaces = given ?? (await namespacesAskedFor(connection, environment, stopping));
  const rebuild = new AbortController();
  let wanted: readonly string[] | undefined;
  let askedAt = 0;
  const ending = AbortSignal.any([stopping, rebuild.signal]);
  const parts = await buildOperator({
    ...options,
    settings,
    watchNamespaces,
    onOtherNamespaces: (namespaces) => {
      wanted = namespaces;
      askedAt = clock.monotonic();
      rebuild.abort();
    },
    connection,
    ledger,
    meterLedger: meter.ledger,
    ...omitUndefined({ spool: meter.spool, replica }),
    registry,
    stopping: ending,
  });
  const end = await runParts(parts, ending, { clock, logger });
  await meter.spool?.close();
  await ledger.close();
  await connection.close();
  if (end.kind === 'failed' || wanted === undefined) return end;
  if (clock.monotonic() - askedAt >= STOP_DEADLINE_MS) {
    // Something may still be at work, and two of it must not be.
    return { kind: 'failed', reason: 'it could not be stopped in time to watch other namespaces' };
  }
  return { kind: 'rebuild', watchNamespaces: wanted };
}

/**
 * The namespaces of the MeteringPolicy as it stands, so that watches are not built twice; those of the
 * environment where it names none or cannot be read. The controllers have the last word.
 */
async function namespacesAskedFor(
  connection: Connection,
  { discovery }: Settings,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const stored = await readStoredPolicy(connection, signal);
  const spec = stored.kind === 'ok' ? stored.policy?.['spec'] : undefined;
  const found = isRecord(spec) ? spec['discovery'] : undefined;
  const namespaces: unknown = isRecord(found) ? found['namespaces'] : undefined;
  if (!Array.isArray(namespaces)) return discovery.watchNamespaces;
  return namespaces.filter((name) => typeof name === 'string');
}
