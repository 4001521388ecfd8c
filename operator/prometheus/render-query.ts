import {
  escapePromqlText,
  type NamePlaceholder,
  type Placeholder,
  readQueryTemplate,
} from '../config/query-template.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Window } from '../model/window.ts';

export type RenderedQuery =
  | { readonly kind: 'query'; readonly promql: string }
  /** The tenant cluster has no such name: a query without it would select the series of others. */
  | { readonly kind: 'nameless'; readonly placeholder: string }
  | { readonly kind: 'invalid'; readonly reason: string };

/** What a template is filled with: the names of a tenant cluster, and a window. */
export type Subject = Pick<
  TenantCluster,
  'id' | 'namespace' | 'name' | 'tenant' | 'project' | 'instance'
>;

/** Fills a query template, every value escaped for the place where it stands (security D.7). */
export function renderQuery(template: string, subject: Subject, window: Window): RenderedQuery {
  const read = readQueryTemplate(template);
  if (read.kind === 'problem') {
    return { kind: 'invalid', reason: `${read.what}: "${read.input}"; ${read.mend}` };
  }
  const seconds = (window.end - window.start) / 1000;
  const values = { ...namesOf(subject), window: `${seconds}s`, window_seconds: String(seconds) };
  let promql = '';
  for (const piece of read.pieces) {
    if (piece.kind === 'text') {
      promql += piece.text;
      continue;
    }
    const value = values[piece.name];
    if (value === undefined || value === '') return { kind: 'nameless', placeholder: piece.name };
    promql += escaped(value, piece);
  }
  return { kind: 'query', promql };
}

function namesOf(subject: Subject): Readonly<Record<NamePlaceholder, string | undefined>> {
  return {
    namespace: subject.namespace,
    vcluster: subject.name,
    instance: subject.instance,
    project: subject.project,
    tenant: subject.tenant,
    tenant_cluster: subject.id,
  };
}

function escaped(value: string, { place, quote }: Placeholder): string {
  switch (place) {
    case 'bare':
      return value;
    case 'string':
      return escapePromqlText(value, quote);
    case 'regex':
      return escapePromqlText(
        value.replaceAll(/[\\.+*?()|[\]{}^$]/g, (mark) => `\\${mark}`),
        quote,
      );
    default:
      return escapePromqlText(
        value.replaceAll('$', () => '$$'),
        quote,
      );
  }
}
