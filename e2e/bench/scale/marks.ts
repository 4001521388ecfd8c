import { isRecord } from '../../../operator/model/is-record.ts';

/** Where the stand-in tells which Namespaces are marked as suspended since when: milliseconds since the epoch, by name. */
export const SUSPENDED_PATH = '/bench/suspended';

const NAMESPACE = /^\/api\/v1\/namespaces\/([^/]+)$/;
const WORKLOAD = /^\/apis\/apps\/v1\/namespaces\/[^/]+\/statefulsets\/([^/]+)$/;
const SUSPENDED_LABEL = 'meterfeed.io/suspended';

/** An object of the population that can be marked. */
export interface MarkedObject {
  readonly collection: '/api/v1/namespaces' | '/apis/apps/v1/statefulsets';
  /** Which one of them it is. */
  readonly index: number;
}

/** The labels and annotations that were applied to objects of the population. */
export class AppliedMarks {
  readonly #marks = new Map<string, Readonly<Record<string, object>>>();
  readonly #suspendedAt = new Map<string, number>();

  /** The object of a path; undefined of paths of other things. */
  objectAt(path: string): MarkedObject | undefined {
    const [collection, name] = NAMESPACE.test(path)
      ? (['/api/v1/namespaces', NAMESPACE.exec(path)?.[1]] as const)
      : (['/apis/apps/v1/statefulsets', WORKLOAD.exec(path)?.[1]] as const);
    const [, index] = /^v?cluster-(\d+)$/.exec(name ?? '') ?? [];
    return index === undefined ? undefined : { collection, index: Number(index) };
  }

  /** What is applied takes the place of what was applied before, as a field manager's does. */
  apply({ collection, index }: MarkedObject, metadata: unknown, now: number): void {
    const marks = ['labels', 'annotations'].flatMap((field) => {
      const given = isRecord(metadata) ? metadata[field] : undefined;
      return isRecord(given) ? [[field, given] as const] : [];
    });
    this.#marks.set(`${collection}/${index}`, Object.fromEntries(marks));
    if (collection !== '/api/v1/namespaces') return;
    const name = `vcluster-${index}`;
    const labels: unknown = Object.fromEntries(marks)['labels'];
    const isSuspended = isRecord(labels) && labels[SUSPENDED_LABEL] === 'true';
    if (!isSuspended) this.#suspendedAt.delete(name);
    else if (!this.#suspendedAt.has(name)) this.#suspendedAt.set(name, now);
  }

  /** An object with what was applied to it. */
  on({ collection, index }: MarkedObject, text: string): string {
    const marks = this.#marks.get(`${collection}/${index}`);
    if (marks === undefined) return text;
    const object = JSON.parse(text) as { readonly metadata: Readonly<Record<string, object>> };
    const { metadata } = object;
    const merged = Object.entries(marks).map(([field, applied]) => [
      field,
      { ...metadata[field], ...applied },
    ]);
    return JSON.stringify({ ...object, metadata: { ...metadata, ...Object.fromEntries(merged) } });
  }

  /** As {@link SUSPENDED_PATH} answers. */
  suspended(): string {
    return JSON.stringify(Object.fromEntries(this.#suspendedAt));
  }
}
