/** One execution of a task that several callers wait for. */
export interface Flight {
  /** Whether `forget` was called during the flight, so that its result may be out of date. */
  isForgotten: boolean
}

/** Runs one task per key at a time. Callers that ask for a key while its task runs get the same result. */
export class SingleFlight<Value> {
  readonly #flights = new Map<string, Flight & { result?: Promise<Value> }>()

  has (key: string): boolean {
    return this.#flights.has(key)
  }

  /**
   * @param task receives its own flight; before its first `await` it must not ask for its own key
   * @throws the error of the task
   */
  run (key: string, task: (flight: Flight) => Promise<Value>): Promise<Value> {
    const underWay = this.#flights.get(key)?.result
    if (underWay !== undefined) return underWay
    const flight: Flight & { result?: Promise<Value> } = { isForgotten: false }
    this.#flights.set(key, flight)
    flight.result = this.#complete(key, flight, task)
    return flight.result
  }

  /** Makes the next caller start a new flight, even if one is still running. */
  forget (key: string): void {
    const flight = this.#flights.get(key)
    if (flight === undefined) return
    flight.isForgotten = true
    this.#flights.delete(key)
  }

  async #complete (key: string, flight: Flight, task: (flight: Flight) => Promise<Value>): Promise<Value> {
    try {
      return await task(flight)
    } finally {
      if (this.#flights.get(key) === flight) this.#flights.delete(key)
    }
  }
}
