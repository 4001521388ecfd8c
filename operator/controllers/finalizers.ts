import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/paths.ts';
import type { ApiResource } from '../kubernetes/source.ts';
import type { WorkOutcome } from '../kubernetes/work-queue.ts';

/** Writes the finalizers of objects. The watch brings the changed object back, and work goes on then. */
export interface Finalizers {
  set(
    resource: ApiResource,
    object: FinalizedObject,
    finalizers: readonly string[],
    signal: AbortSignal,
  ): Promise<WorkOutcome>;
}

export interface FinalizedObject {
  readonly name: string;
  /** Of the version that the finalizers were computed from. */
  readonly resourceVersion: string;
}

const CONFLICT_RETRY_MS = 200;

/**
 * The whole list is written, guarded by the resource version, so that another controller's
 * finalizer is never lost: on a conflict nothing is written, and the newer version is looked at.
 */
export function createFinalizers(connection: Pick<Connection, 'request'>): Finalizers {
  return {
    async set(resource, { name, resourceVersion }, finalizers, signal) {
      const outcome = await connection.request(resourcePath(resource, name), {
        method: 'PATCH',
        contentType: 'application/merge-patch+json',
        body: { metadata: { resourceVersion, finalizers } },
        signal,
      });
      if (outcome.kind === 'ok') return { kind: 'done' };
      if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'done' };
      if (outcome.kind === 'status' && outcome.code === 409) {
        return { kind: 'again', afterMs: CONFLICT_RETRY_MS };
      }
      return { kind: 'failed', reason: `cannot write finalizers: ${describeFailure(outcome)}` };
    },
  };
}
