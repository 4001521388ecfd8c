import { FocusFile } from '../billing/focus/focus-file.ts';
import { type FileEntry, manifestOf } from '../billing/focus/manifest.ts';
import { focusNames } from '../billing/focus/names.ts';
import type { AddUsage } from '../billing/focus/period-usage.ts';
import type { BillingMonth } from '../billing/focus/rows.ts';
import { pricesInForce } from '../billing/usage/prices-in-force.ts';
import { PAST_GAPS_MS } from '../metering/windows/gaps.ts';
import { monthOf } from '../model/periods.ts';
import { isoTime } from './presentation.ts';
import { badRequest, tryLater } from './problem.ts';
import type { RouteContext } from './route.ts';
import { pricesUnread } from './routes/costs.ts';
import { gapsIn, knownGaps } from './routes/gaps.ts';
import { addUsage, measuredSince, rebuilding } from './routes/usage.ts';
import type { Views } from './views.ts';

export interface FocusContext
  extends Pick<RouteContext, 'ledger' | 'totals' | 'clock' | 'version'> {
  readonly views: Pick<Views, 'settings' | 'catalog' | 'pricesKnown' | 'discovery' | 'metering'>;
}

interface FocusQuery {
  readonly month: BillingMonth;
  /** Only this tenant; undefined for all. */
  readonly tenant?: string;
  /** True for a reader that may read one tenant only. */
  readonly isConfined: boolean;
  readonly signal: AbortSignal;
}

/** The rows of a month, and the manifest of files with them. */
interface FocusMonth {
  readonly file: FocusFile;
  /** Call it after the rows were read. */
  readonly manifest: (files: readonly FileEntry[]) => object;
}

/**
 * The FOCUS rows of a month by the settings in force. Throws problems of HTTP where some of its
 * usage is unknown.
 */
export async function focusMonth(context: FocusContext, query: FocusQuery): Promise<FocusMonth> {
  const { views, ledger, totals, clock, version } = context;
  const { month, tenant, isConfined, signal } = query;
  if (!views.pricesKnown()) throw pricesUnread();
  if (!views.discovery.known()) throw tenantsUnknown();
  const since = await measuredSince(context);
  if (since === undefined || since >= month.to) throw notMeasured(month, since);
  const settings = views.settings();
  const catalog = views.catalog();
  const tenants = new Map(views.discovery.tenants().map((one) => [one.id, one]));
  const clusters = new Map(views.discovery.clusters().map(({ id, name }) => [id, name]));
  const closed = (ledger.stats().lastWindowEnd ?? 0) >= month.to;
  const file = new FocusFile({
    month,
    closed,
    add: usageOf(context, query),
    late: async (name) =>
      (await totals()?.late(name, { tenant, signal })) ?? { brought: [], moved: [] },
    pricesOf: await pricesInForce(ledger, settings, [...tenants.values()]),
    isCharged: (metric) => catalog.find(metric)?.informational !== true,
    hasDowntime: settings.focus.downtime === true,
    names: focusNames(settings.focus, settings.portal.name, settings.identity.clusterName, {
      metric: (code) => catalog.find(code),
      tenant: (id) => tenants.get(id)?.displayName,
      cluster: (id) => clusters.get(id),
    }),
  });
  const manifest = (files: readonly FileEntry[]): object => {
    const now = clock.now();
    const gaps =
      month.from >= now - PAST_GAPS_MS
        ? gapsIn(knownGaps(context), { range: month, tenant, isConfined })
        : undefined;
    return manifestOf({
      version,
      month,
      tenant,
      closed,
      since,
      now,
      files,
      sums: file.sums(),
      gaps,
    });
  };
  return { file, manifest };
}

/** Reads usage from the stored sums. Throws where they do not have all of it. */
function usageOf(context: FocusContext, { month, tenant, signal }: FocusQuery): AddUsage {
  const filter = (item: { readonly tenant: string }): boolean =>
    tenant === undefined || item.tenant === tenant;
  return async (sums, range, hourly) => {
    const wanted = { range, filter, tenant, hourly, mayLag: true, signal };
    const outcome = await addUsage(context, sums, wanted);
    if (outcome.kind === 'rebuilding') throw rebuilding();
    if (outcome.kind === 'full') throw new Error('focus: sums without a limit are full');
    if (outcome.partial) throw notStored(month, hourly);
    if (outcome.summedUpTo !== undefined) throw catchingUp();
  };
}

function nameOf({ from }: BillingMonth): string {
  return `month: "${monthOf(new Date(from).toISOString())}"`;
}

function notStored(month: BillingMonth, hourly: boolean): Error {
  const fix = hourly ? 'add grain=day' : 'use a file that was written earlier';
  const kept = hourly ? 'hours are kept for 70 days' : 'days are kept for 400 days';
  return badRequest(
    `some usage of the month is no longer stored: ${nameOf(month)}: ${kept}; ${fix}`,
  );
}

function notMeasured(month: BillingMonth, since: number | undefined): Error {
  const began = since === undefined ? 'there is no usage yet' : `it began on ${isoTime(since)}`;
  return badRequest(
    `nothing was measured in the month: ${nameOf(month)}: ${began}; use a later one`,
  );
}

function tenantsUnknown(): Error {
  return tryLater(503, 5, 'tenants have not been discovered yet: try again in a moment');
}

function catchingUp(): Error {
  return tryLater(503, 60, 'usage sums are catching up with the ledger: try again in a minute');
}
