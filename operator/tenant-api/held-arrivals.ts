/** What a watch brings while nothing may change what is known of its objects. */
export class HeldArrivals<Point> {
  #held: { readonly point: Point; readonly waiting: (() => void)[] } | undefined;

  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** Where a restart resumes as long as they are held. */
  get point(): Point | undefined {
    return this.#held?.point;
  }

  begin(point: Point): void {
    this.#held ??= { point, waiting: [] };
  }

  /** At once, or in its turn when the others are released. */
  take(arrival: () => void): void {
    if (this.#held === undefined) arrival();
    else this.#held.waiting.push(arrival);
  }

  release(): void {
    const { waiting = [] } = this.#held ?? {};
    this.#held = undefined;
    for (const arrival of waiting) arrival();
  }
}
