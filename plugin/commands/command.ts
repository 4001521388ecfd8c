import type { Api, Failure } from '../connection.ts';
import type { Answer } from '../output/print.ts';

export interface Option {
  readonly type: 'string' | 'boolean';
  /** May be given several times. */
  readonly multiple?: true;
  readonly short?: string;
  /** The placeholder of its value in the help; absent for switches. */
  readonly value?: string;
  readonly meaning: string;
  /** The values that a shell offers. */
  readonly complete?: Completion;
}

/** A list in the operator's API with the values: an array of objects with a field. */
export interface Completion {
  readonly path: string;
  readonly list: string;
  readonly field: string;
}

export interface Given {
  readonly api: Api;
  readonly positionals: readonly string[];
  /** The last value that was given. */
  readonly option: (name: string) => string | undefined;
  readonly options: (name: string) => readonly string[];
  readonly isSet: (name: string) => boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly options: Readonly<Record<string, Option>>;
  /** Its arguments as the help writes them, such as `[TENANT]`; at most so many may be given. */
  readonly positionals: readonly { readonly name: string; readonly complete?: Completion }[];
  run(given: Given): Promise<Answer | Failure>;
}

export const TENANTS: Completion = { path: '/api/v1/tenants', list: 'tenants', field: 'id' };
export const DESTINATIONS: Completion = {
  path: '/api/v1/destinations',
  list: 'destinations',
  field: 'name',
};
export const METRICS: Completion = { path: '/api/v1/catalog', list: 'metrics', field: 'code' };

/** Options of commands with a time range. */
export const RANGE: Readonly<Record<string, Option>> = {
  from: {
    type: 'string',
    value: 'TIME',
    meaning: 'YYYY-MM-DD or RFC 3339; by default the first of the month (UTC)',
  },
  to: {
    type: 'string',
    value: 'TIME',
    meaning: 'the same, exclusive; by default the end of this hour',
  },
};

export const TENANT: Option = {
  type: 'string',
  value: 'TENANT',
  meaning: 'only of this tenant',
  complete: TENANTS,
};

export const METRIC: Option = {
  type: 'string',
  value: 'METRIC',
  meaning: 'only of this metric',
  complete: METRICS,
};

/** The filters of sums, without the tenant. */
export const FILTERS: Readonly<Record<string, Option>> = {
  metric: METRIC,
  sku: { type: 'string', value: 'SKU', meaning: 'only of this SKU' },
  project: { type: 'string', value: 'PROJECT', meaning: 'only of this project' },
  region: { type: 'string', value: 'REGION', meaning: 'only of this region' },
  cluster: { type: 'string', value: 'CLUSTER', meaning: 'only of this tenant cluster' },
};

/** The API's parameters for {@link FILTERS}. */
export function filtersOf({ option }: Given): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(Object.keys(FILTERS).map((name) => [name, option(name)]));
}
