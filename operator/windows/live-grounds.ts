import type { Settings } from '../config/settings.ts';
import type { Observation } from '../observation/observation.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { LiveNodes } from './live-nodes.ts';
import type { ScopeState } from './scope.ts';

/** What would come out otherwise, by namespace: pods by their uids, or everything. */
export type Unseen = ReadonlyMap<string, 'all' | readonly string[]>;

export interface LiveGroundsOptions {
  readonly observation: Observation;
  /** The scopes of this cluster, those of namespaces that are apart included. */
  readonly states: () => readonly ScopeState[];
  readonly settings: () => Settings;
  readonly clock: Pick<Clock, 'now'>;
  readonly nodes: LiveNodes;
}

/** Notices what changes the usage of objects and is no change of theirs: whose they are, their nodes, settings. */
export class LiveGrounds {
  readonly #options: LiveGroundsOptions;
  /** What all namespaces were looked at by. */
  #shared: readonly unknown[] = [];
  #byNamespace: ReadonlyMap<string, readonly unknown[]> = new Map();

  constructor(options: LiveGroundsOptions) {
    this.#options = options;
  }

  /** Since the last call; of a namespace that was not looked at before everything. */
  unseen(namespaces: Iterable<string>): Unseen {
    const unseen = new Map<string, 'all' | readonly string[]>(this.#options.nodes.podsOnChanged());
    const shared = this.#sharedGrounds();
    // Most of the time there is nothing, and namespaces are many.
    if (isSame(shared, this.#shared)) return unseen;
    this.#shared = shared;
    const looked = new Map<string, readonly unknown[]>();
    for (const namespace of namespaces) {
      const before = this.#byNamespace.get(namespace);
      const grounds = this.#groundsOf(namespace);
      if (before === undefined || !isSame(before, grounds)) unseen.set(namespace, 'all');
      looked.set(namespace, grounds);
    }
    this.#byNamespace = looked;
    return unseen;
  }

  #sharedGrounds(): readonly unknown[] {
    const { observation, states, settings } = this.#options;
    const { identity, metering } = settings();
    const scopes = states().map(({ scope }) => scope);
    return [identity, metering, observation.tenantClusters.version, ...scopes];
  }

  #groundsOf(namespace: string): readonly unknown[] {
    const { observation, states, settings, clock } = this.#options;
    const { identity, metering } = settings();
    const now = clock.now();
    const [tenancy] = observation.tenantClusters.tenancies(namespace, now, now + 1);
    const left = (tenancy?.leaving ?? []).map(({ cluster }) => cluster);
    const apart = states().flatMap(({ scope }) => (scope.namespace === namespace ? [scope] : []));
    return [identity, metering, ...apart, ...(tenancy?.clusters ?? []), ...left];
  }
}

function isSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}
