import type { Connection } from '../kubernetes/connection.ts';
import type { Observation } from '../observation/observation.ts';
import type { PodView } from '../observation/pod.ts';
import type { WatchPoint } from './journal.ts';
import type { WatchedSource } from './scope.ts';

/**
 * What the own API of one tenant cluster shows, as the collector needs to know it (spec 1.1). It is a
 * scope of its own, that comes and goes at run time and closes its windows whether or not others do.
 */
export interface TenantObjects {
  /** Of the tenant cluster. */
  readonly id: string;
  /** Timelines of its objects; the tenant cluster itself is the only one in it. */
  readonly observation: Observation;
  /** The watches that its windows need at present. */
  readonly sources: readonly Pick<WatchedSource, 'resource' | 'health'>[];
  /** All of them have listed once. */
  readonly listed: boolean;
  /**
   * It has nodes of its own, or had: only then is its absence a gap, and what else it shows billed,
   * so that a fleet of shared tenant clusters is not drowned in alarms (design 7).
   */
  readonly hasOwnNodes: boolean;
  /** Set when nothing more will come: the tenant cluster is gone, or is not to be metered this way any more. */
  readonly ended: TenantObjectsEnd | undefined;
  /** By kind of timeline, where its watch can be resumed. */
  watchPoints(now: number): Readonly<Record<string, WatchPoint>>;
  /** Where its pods' usage is read, while that is what they are billed by. */
  readonly metricsApi: Pick<Connection, 'bytes'> | undefined;
  findPod(namespace: string, name: string): PodView | undefined;
}

export interface TenantObjectsEnd {
  /** Windows up to here are closed. */
  readonly at: number;
  /** Until when its objects were known. */
  readonly knownUntil: number;
}

/** All of them. */
export interface TenantObjectsList {
  list(): readonly TenantObjects[];
  /** Its last window is closed: nobody asks for it again. */
  release(id: string): void;
}

/** Where no tenant cluster has nodes of its own. */
export const NO_TENANT_OBJECTS: TenantObjectsList = {
  list: () => [],
  release: () => undefined,
};
