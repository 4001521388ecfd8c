import type { KubeConfig } from '@kubernetes/client-node';
import { Gauge, type Registry } from 'prom-client';
import type { LedgerDatabase, Settings } from '../settings/settings.ts';
import { createSettingsStore } from '../settings/settings-store.ts';
import { HttpFront } from '../http/front.ts';
import { DEFAULT_LIMITS } from '../http/limits.ts';
import { createStandbyAnswers } from '../http/standby.ts';
import { Connection } from '../kubernetes/connection.ts';
import { fencedConnection } from '../kubernetes/fenced-connection.ts';
import { LeaderLabel } from '../kubernetes/leader-label.ts';
import { errorText } from '../model/error-text.ts';
import { isRecord } from '../model/is-record.ts';
import type { ConfiguredMetric } from '../prometheus/configured-metric.ts';
import type { AdjustableLogger } from '../telemetry/create-logger.ts';
import { createRegistry } from '../telemetry/registry.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import type { LeaderContext } from './build-context.ts';
import { buildOperator } from './build-operator.ts';
import { buildHub } from './hub/build-hub.ts';
import { HubTerms } from './hub/hub-terms.ts';
import { ledgerDatabases } from './open-ledger.ts';
import { type PartsEnd, runParts, STOP_DEADLINE_MS } from './components.ts';
import { followLogLevel } from './process.ts';
import { readStoredPolicy } from './stored-policy.ts';
import { DatabaseTerms, type Leading, type Terms, VolumeTerms } from './terms.ts';

/** The cluster that a process runs in. */
export interface OwnCluster {
  readonly kubeConfig: KubeConfig;
  /** The process's own, with the Secrets that BillingDestinations name. */
  readonly namespace: string;
}

export interface RunOptions
  extends Pick<LeaderContext, 'version' | 'environment' | 'instance' | 'clock' | 'random'> {
  readonly logger: AdjustableLogger;
  readonly scrubber: Scrubber;
  /** A hub may do without one. */
  readonly cluster?: OwnCluster | undefined;
  /** The name of the pod that this process runs in, where it runs in one. */
  readonly pod?: string | undefined;
  /** What PROMETHEUS_METRICS_FILE held at the start. */
  readonly configuredMetrics?: readonly ConfiguredMetric[];
}

/** What stays while this process leads, steps down and leads again. */
interface Process {
  readonly cluster: { readonly connection: Connection; readonly namespace: string } | undefined;
  readonly registry: Registry;
  readonly front: HttpFront;
  readonly isDatabase: boolean;
  readonly label: LeaderLabel | undefined;
}

type BuiltEnd =
  | PartsEnd
  | { readonly kind: 'rebuild'; readonly watchNamespaces: readonly string[] };

/** Between a step-down and the next attempt to lead. */
const PAUSE_MS = 1_000;

/**
 * Runs an operator, or a hub, until the signal is aborted or a part cannot go on: it stands by, leads, steps down where another
 * process leads, and stands by again (docs/reference/ledger-format.md#leader-and-standby). HTTP and the election outlive that;
 * everything else is built for each term.
 */
export async function runProcess(options: RunOptions, stopping: AbortSignal): Promise<PartsEnd> {
  const { environment, clock, logger, scrubber, pod } = options;
  const found = await ledgerDatabases(environment);
  if (found.kind === 'failed') {
    return { kind: 'failed', reason: `the ledger cannot be opened: ${found.message}` };
  }
  const { databases } = found;
  for (const database of databases) scrubber.learn(database);
  const registry = createRegistry({ version: options.version });
  const cluster = options.cluster && {
    namespace: options.cluster.namespace,
    connection: new Connection(options.cluster.kubeConfig),
  };
  const isDatabase = databases.length > 0;
  const label =
    isDatabase && cluster !== undefined && pod !== undefined
      ? new LeaderLabel({ ...cluster, pod, clock, logger })
      : undefined;
  const terms = termsOf({ ...options, registry }, databases, cluster, label);
  if (terms === undefined) {
    const missing = environment.role === 'hub' ? 'LEDGER_URL' : 'KUBECONFIG';
    return { kind: 'failed', reason: `${missing}: not set` };
  }
  const readiness = () => terms.readiness();
  const front = new HttpFront(
    registry,
    logger,
    DEFAULT_LIMITS,
    createStandbyAnswers({ readiness, metrics: registry, logger, clock }),
  );
  try {
    await front.listen(environment.http);
  } catch (error) {
    return { kind: 'failed', reason: `HTTP server: ${errorText(error)}` };
  }
  const lasting = { cluster, registry, front, isDatabase, label };
  const end = await leadInSlices(options, terms, lasting, stopping);
  await front.close();
  await cluster?.connection.close();
  return end;
}

/** How the process comes to lead: of a hub by a row in its first database, else by the Lease of its cluster. */
function termsOf(
  options: RunOptions & { readonly registry: Registry },
  [first, ...further]: readonly LedgerDatabase[],
  cluster: Process['cluster'],
  label: LeaderLabel | undefined,
): Terms | undefined {
  if (options.environment.role === 'hub') {
    return first && new HubTerms(options, [first, ...further], label);
  }
  if (cluster === undefined) return undefined;
  const shared = { ...options, ...cluster };
  const terms =
    first === undefined ? new VolumeTerms(shared) : new DatabaseTerms(shared, first, label);
  const leading: Gauge = new Gauge({
    name: 'meterfeed_leading',
    help: '1 on the process that holds the lease, 0 on a standby',
    registers: [options.registry],
    collect: () => leading.set(Number(terms.mayAct())),
  });
  return terms;
}

async function leadInSlices(
  options: RunOptions,
  terms: Terms,
  lasting: Process,
  stopping: AbortSignal,
): Promise<PartsEnd> {
  const { clock, logger } = options;
  while (!stopping.aborted) {
    const end = await terms.run(
      (leading, signal) => lead(options, lasting, leading, signal),
      stopping,
    );
    if (end.kind !== 'stepped down') return end;
    logger.warn(`[controller] this process stepped down and stands by: ${end.reason}`);
    await clock.sleep(PAUSE_MS, stopping).catch(() => undefined);
  }
  return { kind: 'stopped' };
}

/**
 * Works as the leader. When the settings come to name other namespaces, all of it is stopped in order and built again:
 * the watches then resume from the journal, as they do after a restart (docs/how-to/operate.md#other-namespaces).
 */
async function lead(
  options: RunOptions,
  lasting: Process,
  leading: Leading,
  signal: AbortSignal,
): Promise<PartsEnd> {
  let watchNamespaces: readonly string[] | undefined;
  for (;;) {
    const own = new Set(lasting.registry.getMetricsAsArray().map(({ name }) => name));
    const end = await runBuilt(options, { ...lasting, ...leading }, watchNamespaces, signal);
    // The next build registers its metrics again.
    for (const { name } of lasting.registry.getMetricsAsArray()) {
      if (!own.has(name)) lasting.registry.removeSingleMetric(name);
    }
    if (end.kind !== 'rebuild') return end;
    if (signal.aborted) return { kind: 'stopped' };
    ({ watchNamespaces } = end);
    const named = watchNamespaces.length === 0 ? 'all' : watchNamespaces.join(', ');
    options.logger.info(
      `[controller] everything is built again, to watch the namespaces: ${named}`,
    );
  }
}

/** From the building to its end. `given` are the namespaces to watch, when they are known. */
async function runBuilt(
  options: RunOptions,
  process: Process & Leading,
  given: readonly string[] | undefined,
  stopping: AbortSignal,
): Promise<BuiltEnd> {
  const { environment, configuredMetrics = [], clock, logger, scrubber } = options;
  const settings = createSettingsStore(environment);
  settings.subscribe((next) => scrubber.learn(next));
  logger.setLevel(environment.log.level);
  followLogLevel(settings, logger);
  const cluster = process.cluster && {
    ...process.cluster,
    connection: fencedConnection(process.cluster.connection, process.mayAct),
  };
  const leader = { ...options, ...process, settings };
  if (process.kind === 'hub') {
    const { databases, epoch } = process;
    const parts = await buildHub({ ...leader, databases, epoch, cluster, stopping });
    return runParts(parts, stopping, { clock, logger });
  }
  if (cluster === undefined) return { kind: 'failed', reason: 'KUBECONFIG: not set' };
  const { ledger, rollups } = process;
  const watchNamespaces =
    given ?? (await namespacesRequestedFor(cluster.connection, environment, stopping));
  const rebuild = new AbortController();
  let wanted: readonly string[] | undefined;
  let requestedAt = 0;
  const ending = AbortSignal.any([stopping, rebuild.signal]);
  const parts = await buildOperator({
    ...leader,
    ...cluster,
    ledger,
    rollups,
    configuredMetrics,
    watchNamespaces,
    onOtherNamespaces: (namespaces) => {
      wanted = namespaces;
      requestedAt = clock.monotonic();
      rebuild.abort();
    },
    stopping: ending,
  });
  const end = await runParts(parts, ending, { clock, logger });
  if (end.kind === 'failed' || wanted === undefined) return end;
  if (clock.monotonic() - requestedAt >= STOP_DEADLINE_MS) {
    // Something may still be at work, and two of it must not be.
    return { kind: 'failed', reason: 'it could not be stopped in time to watch other namespaces' };
  }
  return { kind: 'rebuild', watchNamespaces: wanted };
}

/**
 * The namespaces of the MeteringPolicy as it stands, so that watches are not built twice; those of the
 * environment where it names none or cannot be read. The controllers have the last word.
 */
async function namespacesRequestedFor(
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
