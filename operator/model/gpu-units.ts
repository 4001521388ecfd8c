import { commonDivisor } from './fraction.ts';

/**
 * GPU quantities as integers (docs/explanation/gpus.md#gpu-quantity). Every share of a GPU in every
 * sharing mode is an integer number of parts, so that shares add up exactly and are rounded once.
 */

/** A device can be shared among up to this many without rounding. */
const EXACT_UP_TO = 128n;
/** MIG cuts a GPU into sevenths, quarters or halves, which may be shared again. */
const MIG_CUTS = 28n;

/** Parts that make one physical GPU. */
export const UNITS_PER_GPU: bigint = MIG_CUTS * leastCommonMultiple(EXACT_UP_TO);

/** The parts of `numerator ÷ denominator` GPUs. */
export function gpuUnits(numerator: number | bigint, denominator: number | bigint = 1n): bigint {
  return (UNITS_PER_GPU * BigInt(numerator)) / BigInt(denominator);
}

/** Converts parts to GPUs as a number, for texts and reports. Invoices never use it. */
export function gpusOf(parts: bigint): number {
  const MILLIARDTHS = 1_000_000_000n;
  return Number((parts * MILLIARDTHS) / UNITS_PER_GPU) / Number(MILLIARDTHS);
}

function leastCommonMultiple(upTo: bigint): bigint {
  let multiple = 1n;
  for (let next = 2n; next <= upTo; next += 1n)
    multiple = (multiple * next) / commonDivisor(multiple, next);
  return multiple;
}
