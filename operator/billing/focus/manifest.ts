import { hash } from 'node:crypto';
import { COST_PLACES } from '../../model/pricing/charges.ts';
import { formatInstant } from '../../model/window.ts';
import type { FocusVersion } from '../../settings/settings.ts';
import { FOCUS_COLUMNS } from './columns.ts';
import type { FocusSums } from './focus-file.ts';
import type { BillingMonth } from './rows.ts';

/** A written file. */
export interface FileEntry {
  readonly name: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** What no file of meterfeed contains (docs/reference/focus.md#what-cannot-be-known). */
const AMOUNTS = 'exclusive of taxes, and of discounts, credits and fees of the billing system';

/**
 * The description of the files of a month, for JSON (docs/reference/focus.md#manifest). It is
 * complete when the month is closed and all of its usage was measured and has a price.
 */
export function manifestOf(parts: {
  /** The version of meterfeed. */
  readonly version: string;
  readonly month: BillingMonth;
  /** The only tenant of the file; undefined for all tenants. */
  readonly tenant?: string;
  readonly closed: boolean;
  /** When measuring began, milliseconds since the epoch; undefined if unknown. */
  readonly since?: number;
  readonly now: number;
  readonly files: readonly FileEntry[];
  readonly sums: FocusSums;
  /** What was not measured; undefined for a month of which gaps are no longer stored. */
  readonly gaps?: { readonly open: readonly unknown[]; readonly ended: readonly unknown[] };
}): object {
  const { version, month, tenant, closed, since, now, files, sums, gaps } = parts;
  const measured = since !== undefined && since <= month.from;
  const isGapless = gaps?.open.length === 0 && gaps.ended.length === 0;
  return {
    focus_version: month.focusVersion,
    month: new Date(month.from).toISOString().slice(0, 7),
    grain: month.grain,
    tenant,
    created: formatInstant(now),
    period_status: closed ? 'Closed' : 'Open',
    complete: closed && measured && isGapless && sums.unpriced.length === 0,
    measured_since: since === undefined ? undefined : formatInstant(since),
    delivery: 'Overwrite: a later file of the month replaces this one',
    amounts: AMOUNTS,
    files,
    sums,
    gaps,
    schema: schemaOf(month.focusVersion, version),
  };
}

/** The most digits of a number, and those after the point. */
const DECIMAL = { NumericPrecision: 38, NumberScale: COST_PLACES };

/** The Schema object of FOCUS. Its id is the same for all files with the same columns. */
function schemaOf(focusVersion: FocusVersion, version: string): object {
  const columns = FOCUS_COLUMNS[focusVersion].map(({ name, type }) => ({
    ColumnName: name,
    DataType: type,
    ...(type === 'Decimal' && DECIMAL),
    ...(name === 'Tags' && { ProviderTagPrefixes: ['meterfeed/'] }),
    ...((name === 'ProviderName' || name === 'PublisherName') && { Deprecated: true }),
  }));
  const digest = hash('sha256', JSON.stringify(columns), 'hex').slice(0, 12);
  return {
    SchemaId: `meterfeed-focus-${focusVersion}-${digest}`,
    FocusVersion: focusVersion,
    DataGenerator: 'meterfeed',
    DataGeneratorVersion: version,
    ColumnDefinition: columns,
  };
}
