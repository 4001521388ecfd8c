import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { FocusFile } from '../billing/focus/focus-file.ts';
import { manifestOf } from '../billing/focus/manifest.ts';
import { focusNames } from '../billing/focus/names.ts';
import type { BillingMonth } from '../billing/focus/rows.ts';
import { pricesInForce } from '../billing/usage/prices-in-force.ts';
import { translatePolicy } from '../controllers/policy-settings.ts';
import { translatePriceBook } from '../controllers/price-book-settings.ts';
import { storedSpecs } from '../controllers/stored-price-books.ts';
import { loadMemory } from '../discovery/memory.ts';
import { gapsIn } from '../http/routes/gaps.ts';
import type { LedgerPlace } from '../ledger/tool/events.ts';
import { type LedgerFacts, readFacts } from '../ledger/tool/facts.ts';
import { type Gap, Gaps } from '../metering/windows/gaps.ts';
import { buildCatalog, type Catalog } from '../model/catalog.ts';
import { monthOf, monthRange } from '../model/periods.ts';
import type { PriceBook } from '../model/price-book.ts';
import { formatInstant, type TimeRange } from '../model/window.ts';
import type { MeteringPolicySpec } from '../settings/custom-resources.generated.ts';
import type { FocusFormat, PolicySettings } from '../settings/settings.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import { writeTo } from './focus-export.ts';
import { writeMonth } from './write-focus-month.ts';
import { type LedgerSums, sumLedger } from './focus-sums.ts';

export interface FocusRequest {
  readonly place: LedgerPlace;
  readonly month: BillingMonth;
  /** Only this tenant; undefined for all. */
  readonly tenant?: string;
  /** The directory to write to. */
  readonly out: string;
  readonly format: FocusFormat;
  /** A YAML file with the MeteringPolicy, for names and custom metrics. */
  readonly policyFile?: string;
  /** The plan of tenants without one. */
  readonly defaultPlanCode: string;
  readonly clusterName: string;
  readonly version: string;
  readonly now: number;
}

const GAP_PREFIXES = ['gap/', 'prometheus/gap/'];
const PREFIXES = ['costs/', 'discovery/', ...GAP_PREFIXES];

/**
 * Writes the FOCUS files of a month from a ledger, and its manifest last
 * (docs/reference/focus.md#files-of-the-ledger-tool). Returns the paths. Throws if some usage of
 * the month is not in the ledger.
 */
export async function writeFocusFiles(request: FocusRequest): Promise<readonly string[]> {
  const { place, month, out, tenant, format } = request;
  const facts = await readFacts(place, PREFIXES);
  refuseDeleted(facts, month);
  await mkdir(out, { recursive: true });
  const directory = await mkdtemp(join(out, 'sums-'));
  try {
    await using sums = await sumLedger(place, { facts, to: month.to, tenant }, directory);
    const { since } = sums;
    if (since === undefined || since >= month.to) {
      const name = monthOf(formatInstant(month.from));
      throw new Error(`--month: the ledger has no usage of it or of an earlier one: "${name}"`);
    }
    const file = await focusFile(request, facts, sums);
    const known = await knownGaps(facts);
    const outcome = await writeMonth({
      month,
      file,
      manifest: (files) =>
        manifestOf({
          ...request,
          closed: isClosed(facts, month),
          since,
          files,
          sums: file.sums(),
          gaps: gapsIn(known, { range: month, tenant, isConfined: false }),
        }),
      format,
      target: { put: (name, bytes) => writeTo(join(out, name), bytes) },
      slice: new TimeSlice(systemClock),
      note: async () => undefined,
    });
    if (outcome.kind === 'failed') throw new Error(outcome.reason);
    return outcome.names;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Throws if some usage of a range may be deleted. */
function refuseDeleted({ horizon }: LedgerFacts, { from }: TimeRange): void {
  if (horizon <= from) return;
  const until = new Date(horizon).toISOString();
  const fix = 'use an older backup, or GET /api/v1/focus';
  const name = monthOf(formatInstant(from));
  throw new Error(`--month: usage until ${until} may be deleted: "${name}"; ${fix}`);
}

function isClosed({ lastWindowEnd = 0 }: LedgerFacts, { to }: BillingMonth): boolean {
  return lastWindowEnd >= to;
}

async function focusFile(
  { month, policyFile, defaultPlanCode, clusterName }: FocusRequest,
  facts: LedgerFacts,
  sums: LedgerSums,
): Promise<FocusFile> {
  const policy = policyFile === undefined ? {} : await readPolicy(policyFile);
  const catalog = catalogOf(policy);
  const { memory } = await loadMemory(facts);
  const tenants = [...memory.tenants.values()].map(({ tenant }) => tenant);
  const titles = new Map(tenants.map(({ id, displayName }) => [id, displayName]));
  const clusters = new Map(
    [...memory.ids].map(([at, { id }]) => [id, at.slice(at.indexOf('/') + 1)]),
  );
  const settings = {
    pricing: { books: await storedBooks(facts) },
    billing: { defaultPlanCode, destinations: [], currency: '' },
  };
  return new FocusFile({
    month,
    closed: isClosed(facts, month),
    add: sums.add,
    late: async (name) => {
      const late = await sums.late(name);
      // The tiers of corrections depend on all usage of their month.
      for (const { item } of late.brought)
        refuseDeleted(facts, monthRange(monthOf(item.window_start)));
      return late;
    },
    pricesOf: await pricesInForce(facts, settings, tenants),
    isCharged: (metric) => catalog.find(metric)?.informational !== true,
    hasDowntime: policy.focus?.downtime === true,
    names: focusNames(policy.focus ?? { services: [] }, policy.portal?.name, clusterName, {
      metric: (code) => catalog.find(code),
      tenant: (id) => titles.get(id),
      cluster: (id) => clusters.get(id),
    }),
  });
}

/** The price books that were last in force. Throws at one that cannot be read. */
async function storedBooks(facts: LedgerFacts): Promise<readonly PriceBook[]> {
  return [...(await storedSpecs(facts))].map(([name, spec]) => {
    const translated = translatePriceBook(name, spec);
    if (translated.kind === 'settings') return translated.settings;
    throw new Error(`PriceBook: ${translated.message}: "${name}"`);
  });
}

async function knownGaps(facts: LedgerFacts) {
  const gaps: Gap[] = [];
  for (const prefix of GAP_PREFIXES) {
    const found = new Gaps(prefix);
    found.restore(await Array.fromAsync(facts.records(prefix)));
    gaps.push(...found.list());
  }
  const { memory } = await loadMemory(facts);
  const clusters = [...memory.tenants.values()].flatMap(({ tenant }) =>
    tenant.clusters.map((id) => ({ id, tenant: tenant.id })),
  );
  return { gaps, clusters, lastWindowEnd: facts.lastWindowEnd };
}

async function readPolicy(path: string): Promise<PolicySettings> {
  const { spec } = (parse(await readFile(path, 'utf8')) ?? {}) as { spec?: MeteringPolicySpec };
  const defaults = { settlingDelayMs: 0, windowMs: 60_000, customMetrics: [] };
  const translated = spec && translatePolicy(spec, defaults);
  if (translated?.kind === 'settings') return translated.settings;
  const why =
    translated?.message ?? 'spec: missing; use kubectl get meteringpolicy default -o yaml';
  throw new Error(`--policy: ${why}: "${path}"`);
}

function catalogOf(policy: PolicySettings): Catalog {
  const outcome = buildCatalog(policy.metering?.customMetrics ?? []);
  if (outcome.kind === 'catalog') return outcome.catalog;
  throw new Error(`--policy: ${outcome.problems.join('; ')}`);
}
