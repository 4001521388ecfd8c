import { linkAbort } from '../../telemetry/abort.ts';
import { createSource } from '../../kubernetes/namespaced-source.ts';
import type { WatchMeans } from '../../kubernetes/reflector-options.ts';
import { identify } from '../../kubernetes/resource.ts';
import type { Projected, RawObject, Source } from '../../kubernetes/source.ts';
import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';

interface ExternalNameView extends Projected {
  readonly externalName: string;
}

const SELECTORS = {
  fieldSelector: 'spec.type=ExternalName',
  // Services that a tenant creates inside its cluster have names that no tenant cluster has.
  labelSelector: '!vcluster.loft.sh/managed-by',
} as const;

/**
 * Targets of the host cluster's Services of type ExternalName. Anyone who may edit such a Service
 * can point it anywhere
 * (https://kubernetes.io/docs/concepts/services-networking/service/#externalname).
 */
export class ExternalNames {
  readonly #options;
  #source: Source<ExternalNameView> | undefined;
  #stop = (): void => undefined;

  constructor(
    options: WatchMeans & {
      /** Empty means all. */
      readonly watchNamespaces: readonly string[];
    },
  ) {
    this.#options = options;
  }

  /** Starts or stops the watch. */
  follow(enabled: boolean, signal: AbortSignal): void {
    if (enabled === (this.#source !== undefined)) return;
    this.#stop();
    this.#source = undefined;
    if (!enabled || signal.aborted) return;
    const { connection, watchNamespaces, clock, random, logger } = this.#options;
    const link = linkAbort(signal);
    this.#stop = link.abort;
    this.#source = createSource<ExternalNameView>({
      connection,
      resource: { group: '', version: 'v1', plural: 'services' },
      namespaces: watchNamespaces,
      ...SELECTORS,
      project: viewOf,
      handlers: [],
      clock,
      random,
      logger,
    });
    void this.#source.run(link.signal).finally(link.release);
  }

  /** The name that a Service is an alias of, in lower case; undefined for any other Service. */
  of(namespace: string, name: string): string | undefined {
    return this.#source?.find(namespace, name)?.externalName;
  }
}

function viewOf(object: RawObject): ExternalNameView | undefined {
  const identity = identify(object);
  const spec = recordAt(object, 'spec');
  // The API server may ignore the selector.
  if (identity === undefined || spec['type'] !== 'ExternalName') return undefined;
  const { uid, namespace, name } = identity;
  const externalName = (textAt(spec, 'externalName') ?? '').toLowerCase().replace(/\.$/, '');
  return { uid, namespace, name, externalName };
}
