import type { LimitFunction } from 'p-limit';
import type { SourceHealth } from '../kubernetes/source.ts';
import type { Observation } from '../observation/observation.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { FirstLists, TenantLimits } from './limits.ts';
import type { SharedMemory } from './memory.ts';
import type { NodeMachines } from './node-machines.ts';
import type { OwnNodes } from './own-nodes.ts';
import type { ForeignReader } from './reading/foreign-reader.ts';
import type { TenantResume } from './tenant-watches.ts';

/** A watch, as far as the collector needs to know it. */
export interface TenantSource {
  readonly resource: { readonly plural: string };
  health(): SourceHealth;
}

export interface TenantUnitOptions {
  readonly id: string;
  readonly observation: Observation;
  readonly ownNodes: OwnNodes;
  readonly machines: NodeMachines;
  /** The watch of the host's nodes: while it fails nobody knows which nodes are the tenant's own. */
  readonly hostNodes: TenantSource;
  readonly hasOwnNodes: boolean;
  readonly resume: Partial<TenantResume>;
  readonly limits: TenantLimits;
  /** Shared with all other tenant clusters. */
  readonly firstLists: FirstLists;
  /** Shared with all other tenant clusters. */
  readonly memory: SharedMemory;
  /** Of first lists under way at the same time, shared with all other tenant clusters. */
  readonly limit: LimitFunction;
  /** Shared with all other tenant clusters. */
  readonly reader: Pick<ForeignReader, 'of'>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}
