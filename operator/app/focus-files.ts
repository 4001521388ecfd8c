import { mkdir, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { parse } from 'yaml';
import { FocusFile } from '../billing/focus/focus-file.ts';
import { type FileEntry, FOCUS_VERSION, manifestOf } from '../billing/focus/manifest.ts';
import { focusNames } from '../billing/focus/names.ts';
import type { BillingMonth } from '../billing/focus/rows.ts';
import { pricesInForce } from '../billing/usage/prices-in-force.ts';
import { translatePolicy } from '../controllers/policy-settings.ts';
import { translatePriceBook } from '../controllers/price-book-settings.ts';
import { storedSpecs } from '../controllers/stored-price-books.ts';
import { loadMemory } from '../discovery/memory.ts';
import { FileCount, focusLines } from '../http/focus-csv.ts';
import { gapsIn } from '../http/routes/gaps.ts';
import { renameDurably, writeFileDurably } from '../ledger/leveldb/files.ts';
import { type LedgerFacts, readFacts } from '../ledger/tool/facts.ts';
import type { LedgerPlace } from '../ledger/tool/events.ts';
import { createGaps, type Gap } from '../metering/windows/gaps.ts';
import { buildCatalog, type Catalog } from '../model/catalog.ts';
import type { PriceBook } from '../model/price-book.ts';
import type { MeteringPolicySpec } from '../settings/custom-resources.generated.ts';
import type { PolicySettings } from '../settings/settings.ts';
import { type FocusMonthSums, sumMonth } from './focus-sums.ts';

export interface FocusRequest {
  readonly place: LedgerPlace;
  readonly month: BillingMonth;
  /** Only this tenant; undefined for all. */
  readonly tenant?: string;
  /** The directory to write to. */
  readonly out: string;
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
 * Writes the FOCUS file of a month from a ledger, and its manifest last
 * (docs/reference/focus.md#files-of-the-ledger-tool). Returns the paths. Throws if some usage of
 * the month is not in the ledger.
 */
export async function writeFocusFiles(request: FocusRequest): Promise<readonly string[]> {
  const { place, month, out, tenant } = request;
  const facts = await readFacts(place, PREFIXES);
  const name = new Date(month.from).toISOString().slice(0, 7);
  if (facts.horizon > month.from) {
    const until = new Date(facts.horizon).toISOString();
    const fix = 'use an older backup, or GET /api/v1/focus';
    throw new Error(`--month: usage until ${until} may be deleted: "${name}"; ${fix}`);
  }
  const partition = `billing_period=${name}`;
  const data = join(`focus-${FOCUS_VERSION}`, 'cost-and-usage', partition, 'part-000.csv.gz');
  const manifest = join(`focus-${FOCUS_VERSION}`, 'metadata', partition, 'manifest.json');
  for (const path of [data, manifest]) await mkdir(dirname(join(out, path)), { recursive: true });
  const directory = await mkdtemp(join(out, 'sums-'));
  try {
    await using sums = await sumMonth(place, month, tenant, directory);
    const since = sums.since();
    if (since === undefined || since >= month.to) {
      throw new Error(`--month: the ledger has no usage of it or of an earlier one: "${name}"`);
    }
    const file = await focusFile(request, facts, sums);
    // A reader that finds a manifest finds the files that it describes.
    await rm(join(out, manifest), { force: true });
    const entry = await writeGzip(file, out, data);
    const text = JSON.stringify(
      manifestOf({
        ...request,
        closed: isClosed(facts, month),
        since,
        files: [entry],
        sums: file.sums(),
        gaps: gapsIn(await knownGaps(facts), { range: month, tenant, isConfined: false }),
      }),
      undefined,
      2,
    );
    await writeFileDurably(join(out, manifest), `${text}\n`);
    return [data, manifest];
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function isClosed({ lastWindowEnd = 0 }: LedgerFacts, { to }: BillingMonth): boolean {
  return lastWindowEnd >= to;
}

async function focusFile(
  { month, policyFile, defaultPlanCode, clusterName }: FocusRequest,
  facts: LedgerFacts,
  sums: FocusMonthSums,
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
    pricesOf: await pricesInForce(facts, settings, tenants),
    isCharged: (metric) => catalog.find(metric)?.informational !== true,
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
    const found = createGaps(prefix);
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

/** Writes a file under another name first, so that a name always stands for a complete file. */
async function writeGzip(file: FocusFile, out: string, name: string): Promise<FileEntry> {
  const count = new FileCount();
  let lines = 0;
  const counted = async function* textOf() {
    for await (const line of focusLines(file)) {
      lines += 1;
      yield line;
    }
  };
  const draft = join(out, `${name}.new`);
  await using handle = await open(draft, 'w');
  await pipeline(Readable.from(counted()), createGzip(), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) {
      count.add(chunk);
      await handle.writeFile(chunk);
    }
  });
  await handle.sync();
  await renameDurably(draft, join(out, name));
  return count.entry(name, lines - 1);
}
