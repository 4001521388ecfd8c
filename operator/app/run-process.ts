import type { KubeConfig } from '@kubernetes/client-node';
import type { Registry } from 'prom-client';
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
import { gaugesIn } from '../telemetry/gauges.ts';
import { createRegistry } from '../telemetry/registry.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import type { LeaderContext } from './build-context.ts';
import { buildOperator } from './build-operator.ts';
import { buildHub } from './hub/build-hub.ts';
import { HubTerms } from './hub/hub-terms.ts';
import { ledgerDatabases } from './open-ledger.ts';
import { type ComponentsEnd, runComponents, STOP_DEADLINE_MS } from './components.ts';
import { followLogLevel } from './process.ts';
import { readStoredPolicy } from './stored-policy.ts';
import { DatabaseTerms, type Leading, type Terms, VolumeTerms } from './terms.ts';

/** The cluster that a process runs in. */
export interface OwnCluster {
  readonly kubeConfig: KubeConfig;
  /** The process's own namespace, with the Secrets that BillingDestinations name. */
  readonly namespace: string;
}

export interface RunOptions
  extends Pick<
    LeaderContext,
    'version' | 'environment' | 'instance' | 'controllerTimings' | 'clock' | 'random'
  > {
  readonly logger: AdjustableLogger;
  readonly scrubber: Scrubber;
  /** Absent for a hub outside a cluster. */
  readonly cluster?: OwnCluster;
  /** Name of this process's pod; absent outside a pod. */
  readonly pod?: string;
  /** Metrics of PROMETHEUS_METRICS_FILE at the start. */
  readonly configuredMetrics?: readonly ConfiguredMetric[];
}

/** What outlives a term as the leader. */
interface Process {
  readonly cluster: { readonly connection: Connection; readonly namespace: string } | undefined;
  readonly registry: Registry;
  readonly front: HttpFront;
  readonly isDatabase: boolean;
  readonly label: LeaderLabel | undefined;
}

type BuiltEnd =
  | ComponentsEnd
  | { readonly kind: 'rebuild'; readonly watchNamespaces: readonly string[] };

/** Pause between a step-down and the next attempt to lead. */
const PAUSE_MS = 1_000;

/**
 * Runs an operator or a hub until the signal is aborted or a component fails. It stands by, leads,
 * steps down when another process leads, and stands by again
 * (docs/reference/ledger-format.md#leader-and-standby). HTTP and the election outlive a term;
 * everything else is built for each one.
 */
export async function runProcess(
  options: RunOptions,
  stopping: AbortSignal,
): Promise<ComponentsEnd> {
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

/**
 * How the process becomes leader: for a hub by a row in its first database, else by the Lease of
 * its cluster.
 */
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
  gaugesIn(options.registry)(
    'meterfeed_leading',
    '1 on the process that holds the lease, 0 on a standby',
    () => Number(terms.mayAct()),
  );
  return terms;
}

async function leadInSlices(
  options: RunOptions,
  terms: Terms,
  lasting: Process,
  stopping: AbortSignal,
): Promise<ComponentsEnd> {
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
 * Works as the leader. If the settings name other namespaces, it stops everything in order and
 * builds it again. The watches then resume from the journal, as after a restart
 * (docs/how-to/operate.md#other-namespaces).
 */
async function lead(
  options: RunOptions,
  lasting: Process,
  leading: Leading,
  signal: AbortSignal,
): Promise<ComponentsEnd> {
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
      `[controller] all components start again, to watch the namespaces: ${named}`,
    );
  }
}

/** Builds everything and runs it to its end. `given`: the namespaces to watch, if known. */
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
    const components = await buildHub({ ...leader, databases, epoch, cluster, stopping });
    return runComponents(components, stopping, { clock, logger });
  }
  if (cluster === undefined) return { kind: 'failed', reason: 'KUBECONFIG: not set' };
  const { ledger, rollups } = process;
  const watchNamespaces =
    given ?? (await namespacesRequestedFor(cluster.connection, environment, stopping));
  const rebuild = new AbortController();
  let wanted: readonly string[] | undefined;
  let requestedAt = 0;
  const ending = AbortSignal.any([stopping, rebuild.signal]);
  const components = await buildOperator({
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
  const end = await runComponents(components, ending, { clock, logger });
  if (end.kind === 'failed' || wanted === undefined) return end;
  if (clock.monotonic() - requestedAt >= STOP_DEADLINE_MS) {
    // Components of the former build may still work, and must not work twice.
    return {
      kind: 'failed',
      reason: 'the components did not stop in time to watch other namespaces',
    };
  }
  return { kind: 'rebuild', watchNamespaces: wanted };
}

/**
 * Namespaces of the stored MeteringPolicy, so that watches are built only once. Those of the
 * environment if the policy names none or cannot be read. The controllers correct them later.
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
