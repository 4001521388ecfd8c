import type { Registry } from 'prom-client';
import type { Settings, SettingsStore } from '../config/settings.ts';
import type { HttpFront } from '../http/front.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { LeaderLabel } from '../kubernetes/leader-label.ts';
import type { ReflectorMetrics, WorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { ConfiguredMetric } from '../prometheus/configured-metric.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { CollectorMetrics } from '../windows/collector-metrics.ts';
import type { CustomResources } from './custom-resources.ts';

/** What a process that leads has before it builds an operator. */
export interface OperatorOptions {
  readonly version: string;
  /** The settings without any custom resource. */
  readonly environment: Settings;
  /** What PROMETHEUS_METRICS_FILE held at the start. */
  readonly configuredMetrics: readonly ConfiguredMetric[];
  readonly settings: SettingsStore;
  /** The namespaces that watches are built for; empty means all. */
  readonly watchNamespaces: readonly string[];
  /** Told when the settings name others: the operator has to be built anew for them. */
  readonly onOtherNamespaces: (namespaces: readonly string[]) => void;
  /** Writes nothing while {@link mayAct} is false. */
  readonly connection: Connection;
  /** The operator's own. */
  readonly namespace: string;
  /** Which process this is: the pod's name. */
  readonly instance: string;
  readonly ledger: Ledger;
  /** The ledger is a database, which other processes read as well. */
  readonly isDatabase: boolean;
  /** Whether this process may act on anything outside at this moment: its Lease is renewed. */
  readonly mayAct: () => boolean;
  /** Where requests come in. */
  readonly front: HttpFront;
  /** On the pod of this process, where a Service selects by it. */
  readonly label?: LeaderLabel;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly stopping: AbortSignal;
}

/** What every builder is given: the options, and what all builders share. */
export interface BuildContext extends OperatorOptions {
  readonly outbound: Outbound;
  readonly customResources: CustomResources;
  readonly collectorMetrics: CollectorMetrics;
  readonly reflectorMetrics: ReflectorMetrics;
  readonly queueMetrics: WorkQueueMetrics;
  /** Where a collector is told of work. */
  readonly tracer?: Tracer;
}
