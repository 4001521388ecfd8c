import type { Registry } from 'prom-client';
import type { Settings, SettingsStore } from '../config/settings.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { ReflectorMetrics, WorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { Ledger, Replica } from '../ledger/ledger.ts';
import type { MeterLedger } from '../ledger/meter-ledger.ts';
import type { SpooledLedger } from '../ledger/spool/spooled-ledger.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { ConfiguredMetric } from '../prometheus/configured-metric.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { CollectorMetrics } from '../windows/collector-metrics.ts';
import type { HeapTiming } from '../windows/heap-timing.ts';
import type { CustomResources } from './custom-resources.ts';
import type { Role } from './role.ts';

/** What a process has before it builds an operator. */
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
  readonly connection: Connection;
  /** The operator's own. */
  readonly namespace: string;
  /** Which process this is: the pod's name. */
  readonly instance: string;
  readonly ledger: Ledger;
  /** By which windows are written, and read what belongs to them: the ledger, or the way into one that may be away. */
  readonly meterLedger: MeterLedger;
  /** What waits for a ledger that is away, where it may be. */
  readonly spool?: Pick<SpooledLedger, 'run' | 'begin'>;
  /** Where this process is one of several that may have the ledger open; then {@link ledger} is that of the meter. */
  readonly replica?: Replica;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** Where it can be chosen when the heap is collected. */
  readonly heap?: HeapTiming;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly stopping: AbortSignal;
}

/** What every builder is given: the options, and what all builders share. */
export interface BuildContext extends OperatorOptions {
  readonly role: Role;
  readonly outbound: Outbound;
  readonly customResources: CustomResources;
  readonly collectorMetrics: CollectorMetrics;
  readonly reflectorMetrics: ReflectorMetrics;
  readonly queueMetrics: WorkQueueMetrics;
  /** Where a collector is told of work. */
  readonly tracer?: Tracer;
}
