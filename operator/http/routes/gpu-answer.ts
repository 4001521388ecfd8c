import type { Response } from 'express';
import type { GpuKey, GpuSumRow } from '../../billing/usage/gpu-sums.ts';
import type { TimeRange } from '../../model/window.ts';
import { type CsvFile, sendCsv } from '../csv.ts';
import { jsonWithDecimals } from '../presentation.ts';
import { sendNdjson, sendRows } from '../stream-lines.ts';

/** The GPU-hours of a range. */
interface GpuAnswer {
  readonly range: TimeRange;
  readonly groupBy: readonly GpuKey[];
  readonly rows: readonly GpuSumRow[];
  /** One for each model. */
  readonly totals: readonly GpuSumRow[];
  /** Whether the answer covers all GPUs, assigned or not. Only then it has installed hours. */
  readonly ofEverybody: boolean;
  /** RFC 3339; undefined while no GPU-hours are stored. */
  readonly since: string | undefined;
  readonly note: string | undefined;
}

/** Sends an answer in the requested format. */
export const GPU_SENDERS = { json: sendJson, csv: sendTable, ndjson: sendLines } as const;

/** The utilization of GPUs that nothing measured; unknown is not zero. */
const UNKNOWN = 'unknown';

/** `file` is the CSV format of the request. */
function sendTable(
  response: Response,
  answer: GpuAnswer & { readonly file: CsvFile },
): Promise<void> {
  const { groupBy, rows, file } = answer;
  const withInstalled = hasInstalled(answer);
  const installed = withInstalled ? ['installed'] : [];
  const hours = ['delivered', 'healthy', 'reserved', 'in_use', 'idle', ...installed];
  const figures = [...hours, 'utilization', 'utilization_hours'];
  return sendCsv(response, file, {
    kind: 'gpus',
    columns: [...groupBy, ...figures],
    figures,
    rows: rows.map((row) => [
      ...row.keys,
      row.delivered,
      row.healthy,
      row.reserved,
      row.inUse,
      row.idle,
      ...(withInstalled ? [row.installed] : []),
      row.utilization ?? UNKNOWN,
      row.measured,
    ]),
  });
}

function sendLines(response: Response, answer: GpuAnswer): Promise<void> {
  return sendNdjson(
    response,
    answer.rows.values().map((row) => rowJson(answer, row)),
  );
}

function sendJson(response: Response, answer: GpuAnswer): Promise<void> {
  const { range, groupBy, rows, totals, ofEverybody, since, note } = answer;
  const head = {
    from: new Date(range.from).toISOString(),
    to: new Date(range.to).toISOString(),
    group_by: groupBy,
    unit: 'gpu-hours',
    measured_since: since,
    note,
  };
  const models = totals.map((total) =>
    figuresJson({ gpu_type: total.keys[0] }, total, ofEverybody),
  );
  const texts = rows.values().map((row) => rowJson(answer, row));
  return sendRows(response, head, texts, { totals: models });
}

function rowJson(answer: GpuAnswer, row: GpuSumRow): string {
  const keys = Object.fromEntries(answer.groupBy.map((key, index) => [key, row.keys[index]]));
  return figuresJson(keys, row, hasInstalled(answer));
}

/** Whether rows have installed hours. Those belong to no tenant, so rows by tenant have none. */
function hasInstalled({ groupBy, ofEverybody }: GpuAnswer): boolean {
  return ofEverybody && !groupBy.includes('tenant');
}

function figuresJson(keys: object, row: GpuSumRow, withInstalled: boolean): string {
  const { delivered, healthy, reserved, inUse, idle, installed, utilization, measured } = row;
  return jsonWithDecimals(
    { ...keys, ...(utilization === undefined && { utilization: UNKNOWN }) },
    {
      delivered,
      healthy,
      reserved,
      in_use: inUse,
      idle,
      installed: withInstalled ? installed : undefined,
      utilization,
      utilization_hours: measured,
    },
  );
}
