import type { Failure } from '../connection.ts';
import { list, object, text } from '../fields.ts';
import type { Answer } from '../output/print.ts';
import type { Column, Table } from '../output/table.ts';
import { time } from '../output/words.ts';
import { type Command, type Given, TENANTS } from './command.ts';

/** The tenants, or one of them with its tenant clusters. */
export const tenants: Command = {
  name: 'tenants',
  summary: 'the tenants, or one of them with its tenant clusters',
  positionals: [{ name: '[TENANT]', complete: TENANTS }],
  options: {},
  run: async (given) => {
    const [id] = given.positionals;
    return id === undefined ? all(given) : one(given, id);
  },
};

const COLUMNS: readonly Column[] = [
  { name: 'TENANT', cut: true },
  { name: 'NAME', cut: true },
  { name: 'PLAN', cut: true },
  { name: 'CLUSTERS', align: 'right' },
  { name: 'STATE' },
  { name: 'HELD', align: 'right' },
];

async function all({ api }: Given): Promise<Answer | Failure> {
  const answer = await api.get('/api/v1/tenants');
  if (answer.kind === 'failed') return answer;
  const rows = list(answer.value, 'tenants').map((tenant) => [
    text(tenant, 'id'),
    text(tenant, 'display_name'),
    text(tenant, 'plan'),
    String(list(tenant, 'clusters').length),
    text(tenant, 'billing_state'),
    text(tenant, 'held_events'),
  ]);
  const empty = 'No tenants are known yet.';
  return { kind: 'answer', document: answer.value, table: { columns: COLUMNS, rows, empty } };
}

async function one({ api }: Given, id: string): Promise<Answer | Failure> {
  const answer = await api.get(`/api/v1/tenants/${encodeURIComponent(id)}`);
  if (answer.kind === 'failed') return answer;
  const { value } = answer;
  const reported: readonly (readonly [string, string])[] = [
    ['Tenant', text(value, 'id')],
    ['Name', text(value, 'display_name')],
    ['Email', text(value, 'email')],
    ['Plan', text(value, 'plan')],
    ['Currency', text(value, 'currency')],
    ['Project', text(value, 'project')],
    ['Class', text(value, 'class')],
    ['Region', text(value, 'region')],
    ['State', text(value, 'billing_state')],
    ['Cost center', text(object(value, 'metadata'), 'cost_center')],
    ['Since', time(text(value, 'created_at'))],
  ];
  const facts = reported
    .filter(([, what]) => what !== '')
    .map(([name, what]) => `${`${name}:`.padEnd(13)}${what}`);
  return { kind: 'answer', document: value, facts, table: clusters(value) };
}

function clusters(tenant: unknown): Table {
  return {
    columns: [
      { name: 'TENANT CLUSTER', cut: true },
      { name: 'NAMESPACE', cut: true },
      { name: 'NAME', cut: true },
      { name: 'EXCLUDED' },
      { name: 'SINCE' },
    ],
    rows: list(tenant, 'tenant_clusters').map((cluster) => [
      text(cluster, 'id'),
      text(cluster, 'namespace'),
      text(cluster, 'name'),
      text(cluster, 'excluded'),
      time(text(cluster, 'created_at')),
    ]),
    empty: 'No tenant clusters.',
  };
}
